package channel

import (
	"net"
	"runtime"
	"syscall"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/fault"
)

// maxHandshakeWire bounds what a peer may send until its link handshake is
// done, TLS included. An honest one sends 6 kB, but may send them in small records.
const maxHandshakeWire = 128 << 10

// computing bounds the link handshakes that compute at the same time: one
// processor, if there are two, is left to those who move cells. A handshake that
// waits for its peer lets others compute.
var computing = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))

// meter bounds what a peer can make a link handshake hold and do. Its methods
// are called by the goroutine of the handshake. A nil meter does nothing.
type meter struct {
	account *account.Account
	read    int
	done    bool // the handshake is over
}

// run runs the handshake when it may compute.
func (m *meter) run(handshake func()) {
	computing <- struct{}{}
	defer func() {
		m.done = true
		<-computing
	}()
	handshake()
}

// wait lets others compute while f waits for the peer.
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
		return fault.New(fault.Protocol, "%d bytes, and the link handshake is not done", m.read)
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

// metered is a connection whose link handshake has a meter, where no wire is to
// do that.
type metered struct {
	net.Conn
	meter *meter
}

func (c *metered) Read(p []byte) (int, error) { return c.meter.readMetered(c.Conn, p) }

func (c *metered) Write(p []byte) (int, error) {
	return c.meter.wait(func() (int, error) { return c.Conn.Write(p) })
}

// SyscallConn gives the socket to whoever sets options on it.
func (c *metered) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := c.Conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, fault.New(fault.Local, "the connection has no socket")
}
