package channel

import (
	"net"
	"syscall"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// What the objects that a peer makes us keep count on the account of memory, in
// bytes, besides what is queued on them: about what they take of the heap and of
// stacks, as a test of package relay measures it.
const (
	linkCost      = 57 << 10 // buffers of a record, TLS, two goroutines
	handshakeCost = 15 << 10 // TLS and a goroutine; what was read is added
	circCost      = 512      // a circuit's end on a channel
)

// maxHandshakeWire bounds what a peer may send until its link handshake is
// done, TLS included. An honest one sends 6 kB, but may send them in small records.
const maxHandshakeWire = 128 << 10

// evict closes the channel because it holds too much.
func (ch *Channel) evict(cause error) { ch.Close(cause) }

// evict destroys the circuit because it holds too much.
func (c *Circ) evict(cause error) {
	r := c.receiver()
	if c.destroy(cell.DestroyResourceLimit) && r != nil {
		r.HandleDestroy(cell.DestroyResourceLimit, cause)
	}
}

// meter counts what is read during a link handshake.
type meter struct {
	account *account.Account
	read    int
}

func (m *meter) count(n int) error {
	m.account.Reserve(n)
	if m.read += n; m.read > maxHandshakeWire {
		return fault.New(fault.Protocol, "%d bytes, and the link handshake is not done", m.read)
	}
	return nil
}

// metered is a connection whose link handshake is counted, where no wire is to
// do that.
type metered struct {
	net.Conn
	meter *meter // nil once the handshake is done; the reader owns it
}

func (c *metered) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.meter != nil && err == nil {
		err = c.meter.count(n)
	}
	return n, err
}

// SyscallConn gives the socket to whoever sets options on it.
func (c *metered) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := c.Conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, fault.New(fault.Local, "the connection has no socket")
}
