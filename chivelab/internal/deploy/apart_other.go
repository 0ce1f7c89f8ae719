//go:build !unix

package deploy

import (
	"os"
	"os/exec"
)

// apart does nothing here.
func apart(*exec.Cmd) {}

// ours tells whether a directory is one: the directory for temporary files is the user's own here.
func ours(dir string) bool {
	st, err := os.Lstat(dir)
	return err == nil && st.IsDir()
}
