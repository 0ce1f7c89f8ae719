package stream

import (
	"io"

	"github.com/chivenet/chive/internal/idle"
	"github.com/chivenet/chive/internal/nonblock"
)

// sink is what a stream's bytes are written to. A socket is written to without waiting:
// bytes that the kernel does not take stay in the stream's buffer. So the channel's
// reader can pass on what it received, and needs no other goroutine unless the
// socket's owner is slow. The stream's sinkMu guards it.
type sink struct {
	to    io.Writer
	try   trier // nil if to is no socket
	total int64 // bytes written
	err   error // why the socket cannot be used any more
}

// trier writes what a socket takes at once. If that is not all, n is less than len(p) and
// err is nil.
type trier interface {
	TryWrite(p []byte) (n int, err error)
}

func newSink(to io.Writer) sink {
	k := sink{to: to}
	if raw := idle.Kernel(to); raw != nil {
		k.try = nonblock.NewWriter(raw)
	}
	return k
}

// write writes what the socket takes at once.
func (k *sink) write(p []byte) (int, error) {
	n, err := k.try.TryWrite(p)
	k.total += int64(n)
	k.err = err
	return n, err
}

// wait writes all of p.
func (k *sink) wait(p []byte) (int, error) {
	n, err := k.to.Write(p)
	k.total += int64(n)
	return n, err
}
