package transport

import (
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/panics"
)

// maxEmpty is how many reads in a row may bring nothing.
const maxEmpty = 100

var errLies = fault.New(fault.Local, "the transport's connection says that it moved more bytes than it was given, or fewer than none")

// Conn is a connection of a transport. Its Close does not wait for the transport's.
type Conn struct {
	inner         net.Conn
	log           *slog.Logger
	local, remote net.Addr
	end           func() // closes what the transport opened for it

	once   sync.Once
	closed chan struct{} // by Close
	empty  int           // reads in a row that brought nothing; the reader's
}

// count tells connections of transports apart.
var count atomic.Uint64

// name is an address of a connection that has none of TCP's.
type name string

func (name) Network() string  { return "transport" }
func (n name) String() string { return string(n) }

// Unknown stands for the address of a client whose transport does not know it.
var Unknown net.Addr = name("a pluggable transport")

// newConn returns c as a node may use it. remote is the other side's address; invalid: Unknown.
func newConn(c net.Conn, log *slog.Logger, remote netip.AddrPort, end func()) *Conn {
	g := &Conn{inner: c, log: log, end: end, closed: make(chan struct{}), remote: Unknown,
		local: name("connection " + strconv.FormatUint(count.Add(1), 10) + " of a pluggable transport")}
	if remote.IsValid() {
		g.remote = net.TCPAddrFromAddrPort(remote)
	}
	return g
}

// addrOf returns the address of an IP socket that a connection or a listener names; invalid: it names none.
func addrOf(log *slog.Logger, addr func() net.Addr) (a netip.AddrPort) {
	defer panics.Recover(log, func(error) { a = netip.AddrPort{} })
	t, ok := addr().(*net.TCPAddr)
	if !ok || t == nil {
		return netip.AddrPort{}
	}
	a = t.AddrPort()
	if !a.Addr().IsValid() {
		return netip.AddrPort{}
	}
	return netaddr.PlainPort(a)
}

func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.inner.Read(p)
	switch {
	case n < 0 || n > len(p):
		return 0, errLies
	case n > 0 || err != nil || len(p) == 0:
		c.empty = 0
	default:
		if c.empty++; c.empty >= maxEmpty {
			return 0, fault.New(fault.Local, "the transport's connection: %w", io.ErrNoProgress)
		}
	}
	return n, c.why(err)
}

func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.inner.Write(p)
	switch {
	case n < 0 || n > len(p):
		return 0, errLies
	case n < len(p) && err == nil:
		err = io.ErrShortWrite
	}
	return n, c.why(err)
}

// why returns err, or net.ErrClosed after Close.
func (c *Conn) why(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-c.closed:
		return net.ErrClosed
	default:
		return hide(err)
	}
}

// Close begins to close the connection. It waits for nothing: the transport's own Close may
// wait for its peer, or for ever. After closeTimeout, what the transport has opened for the
// connection is closed anyway.
func (c *Conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		late := time.AfterFunc(closeTimeout, panics.Contain(c.log, nil, c.end))
		go panics.Contain(c.log, nil, func() {
			defer c.end()
			defer late.Stop()
			c.inner.Close()
		})()
	})
	return nil
}

// LocalAddr returns a name that no other connection of this process has.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the address of the bridge or of the client, or Unknown.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines of the transport's connection.
func (c *Conn) SetDeadline(t time.Time) error { return c.inner.SetDeadline(t) }

// SetReadDeadline sets the deadline of Read.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.inner.SetReadDeadline(t) }

// SetWriteDeadline sets the deadline of Write.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.inner.SetWriteDeadline(t) }
