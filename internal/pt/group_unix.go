//go:build unix

package pt

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps a terminal's Ctrl-C from the process: it is ended in order,
// after the connections that it carries.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
