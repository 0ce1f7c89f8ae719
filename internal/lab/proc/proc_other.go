//go:build !linux

package proc

import (
	"errors"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Of reads the usage of the process pid; here it cannot.
func Of(int) (Usage, error) {
	return Usage{}, fault.New(fault.Local, "the usage of a process can be read on Linux only: %w", errors.ErrUnsupported)
}

// CPU reads the processor time of the process pid; here it cannot.
func CPU(int) (time.Duration, error) {
	return 0, fault.New(fault.Local, "the processor time of a process can be read on Linux only: %w", errors.ErrUnsupported)
}

// Conns returns the process's established TCP connections; here it cannot.
func Conns(int) ([]Conn, error) {
	return nil, fault.New(fault.Local, "the connections of a process can be read on Linux only: %w", errors.ErrUnsupported)
}
