//go:build !unix

package pt

import "os/exec"

// ownGroup does nothing: only on Unix do children get a terminal's signals.
func ownGroup(*exec.Cmd) {}
