//go:build !unix

package pt

import "os/exec"

// ownGroup does nothing: only Unix sends a terminal's signals to children.
func ownGroup(*exec.Cmd) {}
