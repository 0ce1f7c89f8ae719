// Package proc reports what a running process uses: processor time to the
// nanosecond, and resident memory.
package proc

import "time"

// Usage holds the resources that a process has used so far.
type Usage struct {
	CPU     time.Duration // user and system time of all its threads, also ended ones
	RSS     int64         // resident memory, bytes
	PeakRSS int64         // the most it ever was, bytes
	Anon    int64         // resident memory that is of no file, bytes
	Threads int
}
