package manual

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestRoff(t *testing.T) {
	if got := roff(".dot 'q' a-b\\n"); got != `\&.dot \(aqq\(aq a\-b\en` {
		t.Error(got)
	}
	long := strings.Repeat("word ", 40) + "\n" + strings.Repeat("x", 100) + " y\n  " + strings.Repeat("kept ", 20)
	got := wrapped(long)
	if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(long), " ") || !strings.HasSuffix(got, "\n  "+strings.Repeat("kept ", 20)) {
		t.Errorf("words were lost: %s", got)
	}
	for _, l := range strings.Split(got, "\n") {
		if len(l) > column && !strings.HasPrefix(l, " ") && !strings.HasPrefix(l, "x") {
			t.Errorf("a long line: %s", l)
		}
	}
	if got := roff(wrapped(strings.Repeat("x", column-1) + " .dot")); !strings.HasSuffix(got, "\n\\&.dot") {
		t.Errorf("a line begins as a request does: %s", got)
	}
}

// TestDate: two runs at different times make the same pages.
func TestDate(t *testing.T) {
	dir := t.TempDir()
	root := &cobra.Command{Use: "program", Short: "It"}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	if err := Write(root, dir); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "program.1"))
	if err != nil || !strings.HasPrefix(string(page), ".TH PROGRAM 1 2023-11-14 ") {
		t.Errorf("%v: %s", err, page)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "today")
	if err := Write(root, dir); err == nil {
		t.Error("a date that is none")
	}
}
