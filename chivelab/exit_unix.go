//go:build unix

package main

import (
	"os"
	"syscall"
)

// childCode returns the exit code that reports a child's end. For a child that
// a signal ended, it is 128 plus the signal's number, as in a shell.
func childCode(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}
