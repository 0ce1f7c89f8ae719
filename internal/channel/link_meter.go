package channel

import (
	"net"
	"runtime"
	"syscall"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/fault"
)

// maxHandshakeWire bounds the bytes that a peer may send until its link handshake is
// done, with TLS. An honest peer sends 6 kB, but perhaps in small records.
const maxHandshakeWire = 128 << 10

// computing bounds the link handshakes that compute at the same time: if there are two
// processors or more, one is left for moving cells. While a handshake waits for its
// peer, others may compute.
var computing = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))

// meter bounds what a peer can make a link handshake hold and do. The goroutine of the
// handshake calls its methods. A nil meter does nothing.
type meter struct {
	account *account.Account
	read    int
	done    bool // the handshake is over
}

// run runs the handshake when there is a free place to compute.
func (m *meter) run(handshake func()) {
	computing <- struct{}{}
	defer func() {
		m.done = true
		<-computing
	}()
	handshake()
}

// wait lets other handshakes compute while f waits for the peer.
func (m *meter) wait(f func() (int, error)) (int, error) {
	if m == nil || m.done {
		return f()
	}
	<-computing
	n, err := f()
	computing <- struct{}{}
	return n, err
}

// count counts n bytes that were read.
func (m *meter) count(n int) error {
	if m == nil || m.done {
		return nil
	}
	m.account.Reserve(n)
	if m.read += n; m.read > maxHandshakeWire {
		return fault.New(fault.Protocol, "the peer sent %d bytes, and the link handshake is not done", m.read)
	}
	return nil
}

// readMetered reads from a connection during the handshake.
func (m *meter) readMetered(c net.Conn, p []byte) (int, error) {
	n, err := m.wait(func() (int, error) { return c.Read(p) })
	if err == nil {
		err = m.count(n)
	}
	return n, err
}

// metered adds a meter to a connection that has no wire.
type metered struct {
	net.Conn
	meter *meter
}

func (c *metered) Read(p []byte) (int, error) { return c.meter.readMetered(c.Conn, p) }

func (c *metered) Write(p []byte) (int, error) {
	return c.meter.wait(func() (int, error) { return c.Conn.Write(p) })
}

// SyscallConn returns the socket, so that callers can set options on it.
func (c *metered) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := c.Conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, fault.New(fault.Local, "the connection has no socket")
}
