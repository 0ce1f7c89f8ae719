//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup has a program's end take along what it has started.
func ownGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}

// bounded is a command with a limit of 4 GB for its data: some mistakes are loops that never end and fill
// the memory.
func bounded(name string, args []string) (string, []string) {
	return "sh", append([]string{"-c", `ulimit -d 4194304; exec "$0" "$@"`, name}, args...)
}
