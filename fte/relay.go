package fte

import (
	"errors"
	"io"
	"net"
	"sync"

	"github.com/chivenet/chive/internal/panics"
)

// halfCloser is a connection whose sending half can be ended by itself.
type halfCloser interface{ CloseWrite() error }

// Relay copies in both directions until both have ended, and then closes both
// connections. It passes the end of each direction on. The first error ends both
// directions, and both peers see a reset where the connection can show one.
func Relay(a, b net.Conn) (fromA, fromB int64, err error) {
	var wg sync.WaitGroup
	var once sync.Once
	fail := func(e error) {
		once.Do(func() {
			if !errors.Is(e, net.ErrClosed) && !errors.Is(e, io.ErrClosedPipe) {
				err = e
			}
			abort(a)
			abort(b)
		})
	}
	way := func(dst, src net.Conn, n *int64) {
		var e error
		*n, e = pump(dst, src)
		if e == nil {
			if h, ok := dst.(halfCloser); ok {
				e = h.CloseWrite()
			} else {
				// The only way to pass the end on is to close the connection,
				// which ends the other direction too.
				a.Close()
				b.Close()
			}
		}
		if e != nil {
			fail(e)
		}
	}
	wg.Go(panics.Contain(nil, fail, func() { way(b, a, &fromA) }))
	panics.Contain(nil, fail, func() { way(a, b, &fromB) })()
	wg.Wait()
	a.Close()
	b.Close()
	return fromA, fromB, err
}

// abort closes a connection so that its peer sees a failure: what it has received so far
// must not look like the whole.
func abort(c net.Conn) {
	raw := c
	if f, ok := c.(*Conn); ok {
		raw = f.raw
	}
	if t, ok := raw.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Close()
}

// pump copies src to dst until src ends.
func pump(dst, src net.Conn) (int64, error) {
	if c, ok := src.(*Conn); ok {
		return c.WriteTo(dst)
	}
	if c, ok := dst.(*Conn); ok {
		return c.ReadFrom(src)
	}
	return io.Copy(dst, src)
}
