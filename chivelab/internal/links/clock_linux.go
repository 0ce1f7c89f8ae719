package links

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// thread is a clock of a thread of its own, which waits in ppoll(2): exact to some microseconds, and
// before all ordinary programs where the machine allows it.
type thread struct{ fd int }

func newClock() clock {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return newTimers() // no descriptors: the lateness says what that costs
	}
	return &thread{fd}
}

func (t *thread) begin() { Hurry() }

// Hurry ties the goroutine to its thread until it ends, and lets that run before ordinary
// programs, if this user may do so. A goroutine that only moves packets calls it first: what others
// compute on this machine must not look like a slow link.
func Hurry() {
	runtime.LockOSThread() // and never unlocks it: the thread ends with the goroutine
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	if unix.SchedSetAttr(0, &attr, 0) != nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20) // nor that: the lateness says what it costs
	}
}

func (t *thread) wait(ctx context.Context, d time.Duration) {
	fds := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLIN}}
	ts := unix.NsecToTimespec(int64(d))
	n, err := unix.Ppoll(fds, &ts, nil) // a signal may end it early: the caller looks at the clock
	if err == nil && n > 0 {
		var b [8]byte
		_, _ = unix.Read(t.fd, b[:]) // it is nothing but a mark
	}
}

// one is what makes the descriptor readable; any number above 0 does.
var one = []byte{0, 0, 1, 0, 0, 1, 0, 0}

func (t *thread) wake() {
	_, _ = unix.Write(t.fd, one) // full is woken
}

func (t *thread) close() { unix.Close(t.fd) }
