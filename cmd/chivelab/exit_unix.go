//go:build unix

package main

import (
	"os"
	"syscall"
)

// childCode is the exit code that passes a child's end on: a command that a
// signal ended gives 128 and the signal's number, as a shell does.
func childCode(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}
