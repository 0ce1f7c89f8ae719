//go:build !unix

package main

import "os"

// childCode returns the exit code that reports a child's end.
func childCode(s *os.ProcessState) int { return s.ExitCode() }
