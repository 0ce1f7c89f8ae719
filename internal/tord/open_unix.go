//go:build unix

package tord

import (
	"errors"
	"syscall"
)

// openNonblock keeps a pipe that nobody reads from holding up the program.
const openNonblock = syscall.O_NONBLOCK | syscall.O_NOCTTY

// runs reports whether a process is there.
func runs(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
