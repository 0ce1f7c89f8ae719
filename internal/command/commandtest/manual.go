package commandtest

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/command/manual"
)

// Manual returns the manual pages of a program, and checks that groff and mandoc read them
// without a word. CHIVE_INTEROP=1 makes a missing program a failure.
func Manual(t *testing.T, root *cobra.Command) map[string][]byte {
	t.Helper()
	pages := manual.Pages(root, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	for _, judge := range [][]string{{"groff", "-man", "-ww", "-Tutf8", "-z"}, {"mandoc", "-Tlint"}} {
		path, err := exec.LookPath(judge[0])
		if err != nil {
			if os.Getenv("CHIVE_INTEROP") != "" {
				t.Errorf("no %s is here to read the pages", judge[0])
			}
			t.Logf("SKIPPED, NOT PROVEN: no %s is here to read the pages", judge[0])
			continue
		}
		for name, page := range pages {
			cmd := exec.Command(path, judge[1:]...)
			cmd.Stdin = bytes.NewReader(page)
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s: %s: %v %s", judge[0], name, err, out)
			}
		}
	}
	return pages
}
