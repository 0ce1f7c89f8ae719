//go:build unix

package pt

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the process into a group of its own, so that a terminal's
// Ctrl-C does not reach it: its parent ends it after the connections that it
// carries.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
