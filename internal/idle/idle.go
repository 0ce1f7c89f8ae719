// Package idle waits for many sockets at once, without a goroutine for each of them.
//
// A goroutine that waits for a socket costs a stack of two to eight kilobytes. That is
// most of the memory of a connection that does nothing, and most connections of a proxy
// do nothing most of the time. Here one goroutine of the process waits for all of them.
package idle

import "github.com/chivenet/chive/internal/fault"

// Waker is told when its socket has something to read. It is an interface because a
// closure for each socket would take more memory.
type Waker interface{ Wake() }

// errNone says that a goroutine must wait for the socket.
var errNone = fault.New(fault.Local, "this system cannot wait for many sockets at once")
