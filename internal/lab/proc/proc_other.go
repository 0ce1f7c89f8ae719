//go:build !linux

package proc

import (
	"errors"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Of returns an error: it is not supported on this system.
func Of(int) (Usage, error) {
	return Usage{}, fault.New(fault.Local, "the usage of a process can be read on Linux only: %w", errors.ErrUnsupported)
}

// CPU returns an error: it is not supported on this system.
func CPU(int) (time.Duration, error) {
	return 0, fault.New(fault.Local, "the processor time of a process can be read on Linux only: %w", errors.ErrUnsupported)
}

// Uncache does nothing on this system.
func Uncache(string) error { return nil }
