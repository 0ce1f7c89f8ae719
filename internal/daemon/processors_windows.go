package daemon

import (
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// processTime returns the processor time of this process so far.
func processTime() (time.Duration, error) {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0, fault.New(fault.Local, "this process: %w", err)
	}
	var created, ended, kernel, user syscall.Filetime
	if err := syscall.GetProcessTimes(self, &created, &ended, &kernel, &user); err != nil {
		return 0, fault.New(fault.Local, "times of this process: %w", err)
	}
	// Their unit is 100 ns.
	ticks := func(f syscall.Filetime) int64 { return int64(f.HighDateTime)<<32 | int64(f.LowDateTime) }
	return time.Duration(ticks(kernel)+ticks(user)) * 100, nil
}
