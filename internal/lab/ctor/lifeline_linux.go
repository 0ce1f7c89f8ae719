package ctor

import (
	"os/exec"
	"syscall"
)

// tie makes the command die with the thread that starts it, and keeps a
// terminal's Ctrl-C from it, because its owner ends it in the right order.
func tie(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
