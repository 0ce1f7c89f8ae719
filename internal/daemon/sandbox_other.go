//go:build !linux

package daemon

import "github.com/chivenet/chive/internal/fault"

// landlockABI is 0: only Linux has Landlock.
func landlockABI() int { return 0 }

func (c confinement) landlock() error { return fault.New(fault.Config, "sandbox: Landlock is Linux's") }
