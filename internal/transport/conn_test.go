package transport

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics/panicstest"
)

func contains(s, sub string) bool { return strings.Contains(s, sub) }

// slow is a connection whose Close waits.
type slow struct {
	net.Conn
	wait   chan struct{} // nil: it does not
	closed int
}

func (c *slow) Close() error {
	c.closed++
	if c.wait != nil {
		<-c.wait
	}
	return c.Conn.Close()
}

// TestCloseWaits: a Close that waits holds nobody, and what is below is closed in the end.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		inner := &slow{Conn: a, wait: make(chan struct{})}
		var ended atomic.Int64
		c := newConn(inner, nowhere, bridge, func() { ended.Add(1) })
		began := time.Now()
		for range 3 {
			c.Close()
		}
		synctest.Wait()
		if time.Since(began) != 0 || inner.closed != 1 || ended.Load() != 0 {
			t.Errorf("after %v, closed %d times, ended %d", time.Since(began), inner.closed, ended.Load())
		}
		time.Sleep(closeTimeout)
		synctest.Wait()
		if ended.Load() != 1 {
			t.Error("what is below stays open")
		}
		// Its deadline still ends a read, as net.Conn promises.
		read := make(chan error)
		go func() {
			_, err := c.Read(make([]byte, 1))
			read <- err
		}()
		synctest.Wait()
		c.SetDeadline(time.Unix(1, 0))
		if err := <-read; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		close(inner.wait)
		b.Close()
	})
}

// TestClosePanics: a Close that panics closes what is below.
func TestClosePanics(t *testing.T) {
	panicstest.Expect(t, 1)
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		c := newConn(nil, nowhere, bridge, func() { ended.Store(true) })
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if !ended.Load() {
			t.Error("what is below stays open")
		}
	})
}

// liar is a connection that answers what it is told to.
type liar struct {
	net.Conn
	n    int
	err  error
	addr func() net.Addr
}

func (c *liar) Read([]byte) (int, error)  { return c.n, c.err }
func (c *liar) Write([]byte) (int, error) { return c.n, c.err }
func (c *liar) RemoteAddr() net.Addr      { return c.addr() }

// TestLies: counts that cannot be are errors, a connection that never says anything is one, and errors keep
// their meaning without their addresses.
func TestLies(t *testing.T) {
	inner := &liar{}
	c := newConn(inner, nowhere, bridge, func() {})
	p := make([]byte, 4)
	for _, inner.n = range []int{-1, 5} {
		if n, err := c.Read(p); n != 0 || !errors.Is(err, errLies) {
			t.Error(n, err)
		}
		if n, err := c.Write(p); n != 0 || !errors.Is(err, errLies) {
			t.Error(n, err)
		}
	}
	inner.n = 3
	if n, err := c.Write(p); n != 3 || !errors.Is(err, io.ErrShortWrite) {
		t.Error(n, err)
	}
	for range 2 {
		inner.n = 0
		for i := 1; i < maxEmpty; i++ {
			if n, err := c.Read(p); n != 0 || err != nil {
				t.Fatal(i, n, err)
			}
		}
		inner.n = 1
		if n, err := c.Read(p); n != 1 || err != nil {
			t.Error(n, err)
		}
	}
	inner.n = 0
	var err error
	for range maxEmpty {
		if _, err = c.Read(p); err != nil {
			break
		}
	}
	if !errors.Is(err, io.ErrNoProgress) || !fault.Is(err, fault.Local) {
		t.Error(err)
	}
	inner.err = io.EOF
	if _, err := c.Read(p); err != io.EOF {
		t.Error(err)
	}
	inner.err = &net.OpError{Op: "read", Net: "tcp", Addr: net.TCPAddrFromAddrPort(bridge), Err: os.ErrDeadlineExceeded}
	_, err = c.Read(p)
	if ne, ok := err.(net.Error); !ok || !ne.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) || contains(err.Error(), "192.0.2.1") {
		t.Errorf("%T %v", err, err)
	}
	inner.err = errors.New("no")
	if _, err = c.Read(p); err.(net.Error).Timeout() || err.(interface{ Temporary() bool }).Temporary() {
		t.Error(err)
	}
}

// TestAddresses: of what a connection says of its client, only an address of TCP counts, without a zone.
func TestAddresses(t *testing.T) {
	for name, c := range map[string]struct {
		addr   func() net.Addr
		want   string
		panics uint64
	}{
		"an address":       {addr: func() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9), Port: 5} }, want: "192.0.2.9:5"},
		"with a zone":      {addr: func() net.Addr { return &net.TCPAddr{IP: net.ParseIP("fe80::1"), Port: 5, Zone: "eth0"} }, want: "[fe80::1]:5"},
		"nil":              {addr: func() net.Addr { return nil }, want: "invalid AddrPort"},
		"nil of a type":    {addr: func() net.Addr { return (*net.TCPAddr)(nil) }, want: "invalid AddrPort"},
		"no IP":            {addr: func() net.Addr { return &net.TCPAddr{} }, want: "invalid AddrPort"},
		"another network":  {addr: func() net.Addr { return &net.UDPAddr{IP: net.IPv4(192, 0, 2, 9)} }, want: "invalid AddrPort"},
		"a name":           {addr: func() net.Addr { return name("192.0.2.9:5") }, want: "invalid AddrPort"},
		"an IP of 3 bytes": {addr: func() net.Addr { return &net.TCPAddr{IP: net.IP{1, 2, 3}} }, want: "invalid AddrPort"},
		"a panic":          {addr: func() net.Addr { panic("not now") }, want: "invalid AddrPort", panics: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if c.panics > 0 {
				panicstest.Expect(t, c.panics)
			}
			if got := addrOf(nowhere, c.addr); got.String() != c.want {
				t.Error(got)
			}
		})
	}
	if c := newConn(nil, nowhere, netip.AddrPort{}, nil); c.RemoteAddr() != Unknown {
		t.Error(c.RemoteAddr())
	}
}
