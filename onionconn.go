package chive

import (
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/stream"
)

// OnionConn is a connection that a client of an onion service opened.
type OnionConn struct {
	c     *hsservice.Conn
	local net.Addr
}

// Circuit returns the number of the circuit that the connection came over, as
// CircuitEvent has it. Connections over one circuit are of one client.
func (c *OnionConn) Circuit() uint64 { return c.c.Circuit() }

// CircuitAddr returns an address that stands for the circuit, in fc00:dead:beef:4dad::/64
// as C tor's HiddenServiceExportCircuitID has it: for code that counts or limits by address.
// It is nobody's address on a network.
func (c *OnionConn) CircuitAddr() netip.Addr { return hsservice.CircuitAddr(c.c.Circuit()) }

// Port returns the virtual port that the client asked for.
func (c *OnionConn) Port() int { return int(c.c.Port()) }

// Protection says what made the keys that the client and the service share, and what
// protects them from a later quantum computer (docs/spec/pq-onions.md), and which
// encryption of cells they have in common (docs/spec/cgo-onions.md).
func (c *OnionConn) Protection() HopProtection {
	hop := c.c.Hop()
	return protection([]client.HopProtection{{Handshake: hop.Info().Handshake, Protection: hop.Protection(), Layer: hop.Info().Layer}})[0]
}

// Effort returns the effort of the proof of work with which the client came to the service
// (OnionConfig.PoWDefense); zero: it made none.
func (c *OnionConn) Effort() uint32 { return c.c.Effort() }

// CloseCircuit ends the circuit, with all connections of the same client.
func (c *OnionConn) CloseCircuit() { c.c.CloseCircuit() }

// Refuse ends the connection with a reason, which the client reads. If the client was not told that the
// connection is open (OnionConfig.DeferConnected), its DialContext fails with the reason; otherwise
// what it reads next does, after the bytes that were written before. EndDone is an ordinary end.
func (c *OnionConn) Refuse(reason EndReason) error {
	if reason == 0 {
		return fault.New(fault.Config, "onion service: 0 is no reason to end a connection")
	}
	return c.c.Refuse(cell.EndReason(reason))
}

// Read implements net.Conn.
func (c *OnionConn) Read(p []byte) (int, error) {
	if err := c.c.Confirm(); err != nil {
		return 0, err
	}
	return c.c.Read(p)
}

// Write implements net.Conn.
func (c *OnionConn) Write(p []byte) (int, error) {
	if err := c.c.Confirm(); err != nil {
		return 0, err
	}
	return c.c.Write(p)
}

// WriteTo implements io.WriterTo.
func (c *OnionConn) WriteTo(w io.Writer) (int64, error) {
	if err := c.c.Confirm(); err != nil {
		return 0, err
	}
	return c.c.WriteTo(w)
}

// ReadFrom implements io.ReaderFrom.
func (c *OnionConn) ReadFrom(r io.Reader) (int64, error) {
	if err := c.c.Confirm(); err != nil {
		return 0, err
	}
	return c.c.ReadFrom(r)
}

// CloseWrite says that nothing more will be written.
func (c *OnionConn) CloseWrite() error {
	if err := c.c.Confirm(); err != nil {
		return err
	}
	return c.c.CloseWrite()
}

// Close implements net.Conn. A client that was not told that the connection is open reads EndDone.
func (c *OnionConn) Close() error { return c.c.Refuse(cell.EndDone) }

// LocalAddr returns the onion address and the virtual port.
func (c *OnionConn) LocalAddr() net.Addr { return c.local }

// onionClient is every client's address. It has a host and a port, because servers ask for them
// by net.SplitHostPort, and no IP address, which programs may take for one of their own network. No name server knows
// a name in .invalid (RFC 6761).
var onionClient net.Addr = stream.Addr{Host: "onion-client.invalid:0"}

// RemoteAddr returns the same for every client, "onion-client.invalid:0": a service does not
// learn who they are. Circuit and CircuitAddr tell clients apart.
func (c *OnionConn) RemoteAddr() net.Addr { return onionClient }

// SetDeadline implements net.Conn.
func (c *OnionConn) SetDeadline(t time.Time) error { return c.c.SetDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *OnionConn) SetReadDeadline(t time.Time) error { return c.c.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *OnionConn) SetWriteDeadline(t time.Time) error { return c.c.SetWriteDeadline(t) }
