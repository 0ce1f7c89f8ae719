package memconn_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/chivenet/chive/internal/lab/memconn"
)

var here, there = netip.MustParseAddrPort("10.0.0.1:40000"), netip.MustParseAddrPort("10.0.0.2:9001")

// TestListener: as many connections wait as may, those that wait end with the listener, and one that is offered later is
// its dialler's.
func TestListener(t *testing.T) {
	closed := 0
	l := memconn.Listen(there, 2, func() { closed++ })
	var near []net.Conn
	for i := range 3 {
		a, b := memconn.Pipe(here, there, nil)
		if ok := l.Offer(b); ok != (i < 2) {
			t.Errorf("offer %d: %v", i, ok)
		}
		near = append(near, a)
	}
	c, err := l.Accept()
	if err != nil || c.RemoteAddr().String() != here.String() || l.Addr().String() != there.String() {
		t.Fatal(c, err, l.Addr())
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if closed != 1 {
		t.Errorf("closed was called %d times", closed)
	}
	if _, err := near[1].Read(make([]byte, 1)); err != io.EOF {
		t.Error("who was not accepted: ", err)
	}
	if _, err := c.Write([]byte{1}); err != nil {
		t.Error("who was accepted before: ", err)
	}
	if l.Offer(near[2]) {
		t.Error("a closed listener takes a connection")
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestListenerRace: diallers, who accepts and the end at the same time leave no connection open that nobody has.
func TestListenerRace(t *testing.T) {
	for range 50 {
		l := memconn.Listen(there, 8, nil)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 20 {
					a, b := memconn.Pipe(here, there, nil)
					if !l.Offer(b) {
						continue
					}
					wg.Go(func() { // it ends, because the other end is closed by who has it
						if _, err := a.Read(make([]byte, 1)); err != io.EOF {
							t.Error(err)
						}
					})
				}
			})
		}
		wg.Go(func() {
			for range 10 {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Close()
			}
		})
		wg.Go(func() { l.Close() })
		wg.Wait()
	}
}
