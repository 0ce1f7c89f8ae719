package ctor

import (
	"os/exec"
	"syscall"
)

// tie makes the command die with the thread that starts it, and keeps a
// terminal's Ctrl-C from it: its owner ends it in order.
func tie(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
