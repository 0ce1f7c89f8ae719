package programs

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestTxtorconLaunch: txtorcon launches tor, and uses all that its users do.
func TestTxtorconLaunch(t *testing.T) {
	p := python(t, "txtorcon")
	out := run(t, nil, p, "txtorcon_launch.py", asTor(t), torrcFile(t), lab.Target, filepath.Join(t.TempDir(), "data"))
	if !strings.Contains(out, "all well") {
		t.Error(out)
	}
	t.Log(out)
}
