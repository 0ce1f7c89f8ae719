//go:build !unix

package main

import "os"

// childCode is the exit code that passes a child's end on.
func childCode(s *os.ProcessState) int { return s.ExitCode() }
