// Package host has what tests and measurements of whole networks need of the machine: programs that end with
// the one that started them, what a process uses, ports that nobody else takes, and a network of their own.
package host

import (
	"context"
	"io"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/ports"
	"github.com/chivenet/chive/internal/lab/proc"
)

// Process is a running child of this program. On Linux it dies with this program, however that ends; on other
// systems only if that ends normally.
type Process struct{ inner *child.Process }

// Start runs a program that reports on standard output when it is ready: lines of a word and a value, such as
// "socks 127.0.0.1:9050", and then a line "ready". It returns the lines before that as a map; values of one word
// are joined by line ends. log, if not nil, receives the program's standard error. A child that ends first, or is
// not ready when ctx ends, is an error with its last words.
func Start(ctx context.Context, log io.Writer, program string, args ...string) (*Process, map[string]string, error) {
	p, said, err := child.Start(ctx, log, program, args...)
	if err != nil {
		return nil, nil, err
	}
	return &Process{p}, said, nil
}

// PID returns the process number.
func (p *Process) PID() int { return p.inner.PID() }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.inner.Done() }

// LastWords returns the end of what the process printed on standard error.
func (p *Process) LastWords() string { return p.inner.LastWords() }

// Stop asks the process to end, with two signals (the second makes a relay that is draining end at once), and
// waits; after 15 seconds it kills. If the process was one of Chive's, and has contained a panic, that is an error.
func (p *Process) Stop() error { return p.inner.Stop() }

// Kill ends the process at once.
func (p *Process) Kill() error { return p.inner.Kill() }

// Usage holds the resources that a process has used so far.
type Usage struct {
	CPU     time.Duration // user and system time of all its threads, also ended ones
	RSS     int64         // resident memory, bytes
	PeakRSS int64         // the most it ever was, bytes
	Anon    int64         // resident memory that is of no file, bytes
	Threads int
}

// UsageOf reads the usage of a process by its number, its processor time to the nanosecond. It is an error on
// other systems than Linux.
func UsageOf(pid int) (Usage, error) {
	u, err := proc.Of(pid)
	return Usage(u), err
}

// Ports leases TCP ports of loopback, for programs that must be told their port: two programs that lease at the
// same time never get the same port, and the kernel gives none of them to a connection. The zero value is ready
// to use. Methods may be called from any goroutine.
type Ports struct{ leases ports.Leases }

// Take leases one port that is free for TCP on every address given, until Release.
func (p *Ports) Take(addrs ...netip.Addr) (uint16, error) { return p.leases.Take(addrs...) }

// Release gives all ports back.
func (p *Ports) Release() { p.leases.Release() }
