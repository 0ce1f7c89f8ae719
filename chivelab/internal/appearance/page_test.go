package appearance

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPageIsCurrent: docs/appearance.md has a row for each feature, in order, and says of each known
// difference, with the versions that it names, why it is there.
func TestPageIsCurrent(t *testing.T) {
	const page, again = "../../../docs/appearance.md", "chivelab appearance --write docs/appearance.md makes it anew"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`C tor ([0-9a-z.]+) with\s+OpenSSL ([0-9.]+) `).FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s names no versions: %s", page, again)
	}
	allowed, err := Allowed(Versions{Tor: string(m[1]), OpenSSL: string(m[2])})
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, " | `") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	all := features()
	if len(rows) != len(all) {
		t.Fatalf("%s has %d rows, and there are %d features: %s", page, len(rows), len(all), again)
	}
	for i, f := range all {
		k, known := allowed[f.name]
		start := "| " + f.where + " | `" + f.name + "`: " + f.what + " | "
		end := " | " + f.rule.String() + " | same |"
		differs := " | " + f.rule.String() + " | differs: " + k.Why + " |"
		right := strings.HasSuffix(rows[i], end) && (!known || k.Sometimes) || known && strings.HasSuffix(rows[i], differs)
		if !strings.HasPrefix(rows[i], start) || !right {
			t.Errorf("%s: a row is not that of %s: %s: %s", page, f.name, rows[i], again)
		}
	}
}
