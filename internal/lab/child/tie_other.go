//go:build !linux

package child

import "os/exec"

// tie does nothing: only Linux ties a process to its parent's life.
func tie(*exec.Cmd) {}
