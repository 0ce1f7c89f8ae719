//go:build unix

package deploy

import (
	"os"
	"os/exec"
	"syscall"
)

// apart keeps a terminal's signals from a program: Ctrl-C ends this program, which then has ssh remove what is on the boards.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// ours tells whether a directory belongs to this user, and nobody else can write there.
func ours(dir string) bool {
	st, err := os.Lstat(dir)
	if err != nil || !st.IsDir() || st.Mode().Perm()&0o022 != 0 {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Geteuid()
}
