package relay

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/panics"
)

// handshakeTimeout bounds the link handshake of an incoming connection. A bridge keeps it for as long as C tor does, as who looks
// for bridges may try. What all of them hold is bounded by the gate, which closes the oldest to make room.
const (
	handshakeTimeout       = 30 * time.Second
	bridgeHandshakeTimeout = 300 * time.Second
)

// patience returns how long an incoming connection may take for its link handshake.
func (r *Relay) patience() time.Duration {
	if r.cfg.Bridge {
		return bridgeHandshakeTimeout
	}
	return handshakeTimeout
}

// tcpFor returns the network to listen in. A listener at all addresses takes the port of both
// families, unless another one is for the same port of the other family.
func tcpFor(a netip.AddrPort, all []netip.AddrPort) string {
	four := a.Addr().Is4()
	for _, o := range all {
		switch {
		case o.Port() != a.Port() || o.Addr().Is4() == four:
		case four:
			return "tcp4"
		default:
			return "tcp6"
		}
	}
	return "tcp"
}

// acceptLoop accepts connections on one listener until it is closed, or ctx ends,
// and handles each one in its own goroutine.
func (r *Relay) acceptLoop(ctx context.Context, ln net.Listener, welcome func(context.Context, net.Conn)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	err := listen.Serve(ctx, ln, r.log, "ORPort", func(conn net.Conn) {
		wg.Go(panics.Contain(r.log, func(error) { conn.Close() }, func() { welcome(ctx, conn) }))
	})
	if err != nil && !fault.Is(err, fault.Closed) {
		r.log.Error("a listener of this relay is closed", "err", err)
	}
}

// admit reports whether to keep a connection, before anything is read from it.
func (r *Relay) admit(conn net.Conn) bool {
	if r.draining.Load() || r.resting.Load() {
		return false
	}
	from := netaddr.Of(conn.RemoteAddr())
	if !r.gate.enterHandshake(conn, from, r.dos.near(from)) {
		r.stats.ConnsRefused.Add(1)
		return false
	}
	if !r.dos.connect(from) {
		r.gate.leaveHandshake(conn)
		r.gate.leave()
		r.stats.ConnsRefused.Add(1)
		return false
	}
	return true
}

// welcome does the link handshake of an incoming connection.
func (r *Relay) welcome(ctx context.Context, conn net.Conn) {
	if !r.admit(conn) {
		conn.Close()
		return
	}
	tuneLink(conn)
	from := netaddr.Of(conn.RemoteAddr())
	r.shake(ctx, &gatedConn{Conn: conn, ticket: ticket{gate: r.gate, closed: func() { r.dos.disconnect(from) }}})
}

// shake does the link handshake of a connection that the gate has admitted.
func (r *Relay) shake(ctx context.Context, c *gatedConn) {
	ctx, cancel := context.WithTimeout(ctx, r.patience())
	defer cancel()
	ch, err := r.channels.Accept(ctx, r.limits.limit(c))
	r.gate.leaveHandshake(c.Conn)
	if err != nil {
		c.Close()
		r.stats.HandshakesFailed.Add(1)
		r.log.Debug("a link handshake failed", "err", err)
		return
	}
	switch from := ch.RemoteAddr(); {
	case r.dos.listed(ch.Link()):
		c.forgive()
	case from.IsValid() && r.dos.crowded(from):
		r.stats.ConnsRefused.Add(1)
		ch.Close(fault.New(fault.Resource, "too many connections from one address"))
	}
}

// maxStrangerCircs bounds the circuits of a link that is no listed relay's. The
// busiest clients have a few hundred.
const maxStrangerCircs = 4096

// accept handles the request of a client or another relay to create a circuit.
func (r *Relay) accept(c *channel.CircuitEnd, cmd cell.Command, body []byte) {
	if r.draining.Load() || r.resting.Load() {
		c.Destroy(cell.DestroyHibernating)
		return
	}
	ch := c.Channel()
	if !r.dos.listed(ch.Link()) && !r.mayCreate(ch) {
		r.stats.CircuitsRefused.Add(1)
		c.Destroy(cell.DestroyResourceLimit)
		return
	}
	r.server.Accept(c, cmd, body)
}

func (r *Relay) mayCreate(ch *channel.Channel) bool {
	n, _ := ch.Circuits()
	return n <= maxStrangerCircs && !ch.Greedy() && r.dos.create(ch.RemoteAddr())
}
