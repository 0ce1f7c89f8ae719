package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chivenet/chive/internal/fault"
)

// CPU reads the processor time that all threads of the process pid have used.
func CPU(pid int) (time.Duration, error) {
	// The clock of another process's CPU time, as clock_getcpuclockid(3) makes
	// it; /proc/PID/stat counts only hundredths of a second.
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &ts); err != nil {
		return 0, fault.New(fault.Local, "CPU time of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// Of reads the usage of the process pid.
func Of(pid int) (Usage, error) {
	var u Usage
	var err error
	if u.CPU, err = CPU(pid); err != nil {
		return u, err
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, fault.Wrap(fault.Local, err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, err := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "VmRSS:":
			u.RSS = n << 10
		case "VmHWM:":
			u.PeakRSS = n << 10
		case "RssAnon:":
			u.Anon = n << 10
		case "Threads:":
			u.Threads = int(n)
		default:
			continue
		}
		if err != nil {
			return u, fault.New(fault.Local, "process %d: %w", pid, err)
		}
	}
	return u, nil
}
