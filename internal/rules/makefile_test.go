package rules

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// runsAnyway is what makes a line of a recipe run even if make is only asked to print it, and callsMake is the
// only line that may have it: a make that prints, too.
var (
	runsAnyway = regexp.MustCompile(`\$[({]MAKE[)}]|^\t[@-]*\+`)
	callsMake  = regexp.MustCompile(`^\t@?\$\(MAKE\)( --no-print-directory)?( [a-z][a-z0-9-]*)+$`)
)

// TestMakeOnlyPrints: "make -n" runs nothing. GNU make runs a line with $(MAKE) all the same, and all else in that line with it.
func TestMakeOnlyPrints(t *testing.T) {
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for line := range strings.SplitSeq(strings.ReplaceAll(string(text), "\\\n", " "), "\n") {
		if !strings.HasPrefix(line, "\t") || !runsAnyway.MatchString(line) {
			continue
		}
		calls++
		if !callsMake.MatchString(line) {
			t.Errorf("make -n runs %q", line)
		}
	}
	if calls == 0 {
		t.Error("no line calls make: is the Makefile read as it is written?")
	}
}
