package links

import (
	"time"

	"golang.org/x/sys/unix"
)

// fineSleep sleeps for a short time. The runtime's own timers wait in epoll_wait(2), whose times are
// whole milliseconds. A signal may end it early: the caller looks at the clock.
var fineSleep = func(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil)
}
