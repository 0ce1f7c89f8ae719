//go:build unix

package main

import (
	"os"
	"syscall"
)

// childCode is the exit code that passes a child's end on.
func childCode(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}
