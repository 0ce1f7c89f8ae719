//go:build unix

package daemon

import (
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// processTime returns the processor time of this process so far.
func processTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fault.New(fault.Local, "getrusage: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
