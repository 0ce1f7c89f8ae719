package exit

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/netdoc"
)

// TestReducedPolicy: with the reduced policy behind an operator's line, the whole policy is
// C tor's, line by line.
func TestReducedPolicy(t *testing.T) {
	text, err := os.ReadFile("testdata/reduced-policy-of-tor.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want netdoc.ExitPolicy
	for l := range strings.Lines(string(text)) {
		if l = strings.TrimSpace(l); !strings.HasPrefix(l, "#") {
			six := strings.HasPrefix(l, "reject6 ") || strings.HasPrefix(l, "accept6 ")
			rules, err := netdoc.ParsePolicyLine(l)
			if err != nil {
				t.Fatal(l, err)
			}
			if !six { // C tor writes a line for each family
				rules = slices.DeleteFunc(rules, func(r netdoc.PolicyRule) bool { return r.Six })
			}
			want = append(want, rules...)
		}
	}
	got, err := WholePolicy([]string{"reject *:22"}, PolicyOptions{IPv6: true, Reduced: true, Own: []netip.Addr{netip.MustParseAddr("192.0.2.7")}})
	if err != nil || len(want) < 100 || !slices.Equal(got, want) {
		t.Errorf("%v\n%v\nwant\n%v", err, got, want)
	}
	if without, err := WholePolicy(nil, PolicyOptions{Private: true, IPv6: true}); err != nil || slices.Equal(without, ReducedPolicy()) {
		t.Error("the reduced policy without the option", err)
	}
}
