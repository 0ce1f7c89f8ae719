// Package proc tells what a running process has used: processor time to the
// nanosecond and resident memory.
package proc

import "time"

// Usage is what a process has used up to now.
type Usage struct {
	CPU     time.Duration // user and system time of all its threads, ended ones too
	RSS     int64         // resident memory, bytes
	PeakRSS int64         // the most it ever was, bytes
	Threads int
}
