// Package proc tells what a running process has used: processor time to the
// nanosecond, resident memory, and whom it is connected to.
package proc

import (
	"net/netip"
	"time"
)

// Usage is what a process has used up to now.
type Usage struct {
	CPU     time.Duration // user and system time of all its threads, ended ones too
	RSS     int64         // resident memory, bytes
	PeakRSS int64         // the most it ever was, bytes
	Threads int
}

// Conn is an established TCP connection of a process.
type Conn struct{ Local, Remote netip.AddrPort }
