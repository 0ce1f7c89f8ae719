// Package idle lets connections rest: while nothing comes, they have no goroutine, and
// Go's package net does not know their sockets.
//
// A goroutine that waits for a socket costs a stack of two to eight kilobytes, and net
// holds almost one kilobyte for each socket. That is most of the memory of a connection
// that does nothing, and most connections of a proxy do nothing most of the time. Here
// one goroutine of the process waits for all of them.
package idle

import (
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Waker is told when its connection has something to read. It is an interface because a
// closure for each connection would take more memory.
type Waker interface{ Wake() }

// errNone says that a goroutine must wait for the socket.
var errNone = fault.New(fault.Local, "this system cannot wait for many sockets at once")

// restTime is how many nanoseconds a connection rests before net forgets it: to leave net
// and to come back costs some ten system calls.
var restTime atomic.Int64

func init() { SetRestTime(time.Second) }

// SetRestTime is for tests, in which sockets leave net and come back more often.
func SetRestTime(d time.Duration) { restTime.Store(int64(d)) }
