package peers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/program"
)

type connState uint8

const (
	pending   connState = iota // before the end of the handshake
	connected                  // a peer
	gone
)

// conn is a connection that is given to the p2p.Server. Fields after the first block
// are guarded by Manager.mu.
type conn struct {
	net.Conn
	m       *Manager
	addr    connAddr
	inbound bool
	group   string // of incoming connections: the circuit or network; empty: unknown
	route   devp2p.Route
	stretch time.Duration // added to the handshake's deadline
	closing sync.Once

	state   connState
	leaving bool      // it was told to go
	id      enode.ID  // once it is connected
	since   time.Time // of the state
	score   score
}

// connAddr is the address of a connection for p2p.Server: a name that tells connections
// apart, and nothing else.
type connAddr string

func (connAddr) Network() string  { return "devp2p" }
func (a connAddr) String() string { return string(a) }

// RemoteAddr returns a name for the connection. The server needs no more, and events
// and protocols learn no address.
func (c *conn) RemoteAddr() net.Addr { return c.addr }

// LocalAddr returns the same.
func (c *conn) LocalAddr() net.Addr { return c.addr }

// SetDeadline is what RLPx's handshake calls, with 5 seconds. Over an onion that is too
// short. All other deadlines are for reads and writes alone.
func (c *conn) SetDeadline(t time.Time) error {
	if !t.IsZero() {
		t = t.Add(c.stretch)
	}
	return c.Conn.SetDeadline(t)
}

// Close implements net.Conn.
func (c *conn) Close() (err error) {
	c.closing.Do(func() { err = c.Conn.Close() })
	return err
}

// rlpxTimeout is go-ethereum's time for RLPx's handshake.
const rlpxTimeout = 5 * time.Second

// newConn registers a connection; nil: Run has ended. mu is held.
func (m *Manager) newConn(c net.Conn, inbound bool, group string, route devp2p.Route) *conn {
	if m.ended {
		return nil
	}
	m.serial++
	way, dir := "address", "out"
	if route.Onion {
		way = "onion"
	}
	if inbound {
		dir = "in"
	}
	out := &conn{
		Conn: c, m: m, inbound: inbound, group: group, route: route, since: time.Now(),
		addr:    connAddr(fmt.Sprintf("%s-%s-%d", way, dir, m.serial)),
		stretch: max(m.cfg.HandshakeTimeout-rlpxTimeout, 0),
	}
	m.conns[out.addr.String()] = out
	if inbound {
		m.groups[group]++
		m.pending++
	}
	return out
}

// settle ends a connection's time as a pending one. mu is held.
func (m *Manager) settle(c *conn) {
	if c.state == pending && c.inbound {
		m.pending--
	}
}

// drop forgets a connection. mu is held.
func (m *Manager) drop(c *conn) {
	if c.state == gone {
		return
	}
	m.settle(c)
	c.state = gone
	delete(m.conns, c.addr.String())
	if c.inbound {
		if m.groups[c.group]--; m.groups[c.group] <= 0 {
			delete(m.groups, c.group)
		}
	}
}

// accept takes the connections of a listener.
func (m *Manager) accept(ctx context.Context, srv *p2p.Server, l net.Listener, fail context.CancelCauseFunc) {
	_, onion := l.(devp2p.OnionListener)
	for {
		c, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				c.Close()
			}
			return
		case errors.Is(err, net.ErrClosed):
			fail(fmt.Errorf("peers: a listener has ended: %w", err))
			return
		case err != nil:
			// Files or memory may be short for a while.
			if op := (*net.OpError)(nil); errors.As(err, &op) {
				err = op.Err // without the address
			}
			m.log.Warn("a connection could not be accepted", "err", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
			continue
		}
		in := m.admit(c, onion)
		if in == nil {
			c.Close()
			continue
		}
		m.wg.Go(func() { m.setup(srv, in, flagInbound, nil) })
	}
}

// setup has the server do the handshakes. It returns when the connection is a peer's, or
// is closed.
func (m *Manager) setup(srv *p2p.Server, c *conn, flag int, n *enode.Node) error {
	var err error
	switch flag { // the server's type of flags is not exported, but takes constants
	case flagInbound:
		err = srv.SetupConn(c, flagInbound, nil)
	default:
		err = srv.SetupConn(c, flagDialed, n)
	}
	if err != nil {
		c.Close()
		m.mu.Lock()
		m.drop(c)
		m.mu.Unlock()
	}
	return err
}

// groupOf names what incoming connections are counted by: the circuit of an onion, or
// the network of an address. Empty: nothing tells them apart.
func groupOf(c net.Conn, onion bool) string {
	if cc, ok := c.(devp2p.CircuitConn); ok {
		return "circuit " + cc.Circuit()
	}
	if onion {
		return "" // a Tor daemon does not tell
	}
	return "network " + program.PeerOf(c.RemoteAddr()).String()
}

// admit registers an incoming connection, or returns nil if there is no room for it.
func (m *Manager) admit(c net.Conn, onion bool) *conn {
	group := groupOf(c, onion)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if group != "" {
		if m.groups[group] >= m.cfg.PerCircuit || !m.shut.has(group, now).IsZero() {
			return nil
		}
	}
	if m.pending >= m.cfg.MaxPending {
		victim := m.slowest(group)
		if victim == nil {
			return nil
		}
		victim.Close() // its setup drops it again, which does nothing
		m.drop(victim)
	}
	why := "it came to this node's onion"
	if !onion {
		why = "it came to this node's address"
	}
	return m.newConn(c, true, group, devp2p.Route{Onion: onion, Why: why})
}

// slowest returns the pending connection that makes room for one of a group: the oldest
// of the group with the most pending ones, if this group has more than the new one's
// would; else the oldest one that has had the time of two round trips. Where nothing tells
// connections apart, it is any of them: somebody who fills all places cannot know which
// will be free, and an honest node needs only few tries. mu is held.
func (m *Manager) slowest(group string) *conn {
	count := map[string]int{}
	var alike []*conn
	for _, c := range m.conns {
		if c.state == pending && c.inbound {
			count[c.group]++
			if c.group == "" {
				alike = append(alike, c)
			}
		}
	}
	if group == "" && len(alike) == m.pending {
		return alike[rand.IntN(len(alike))]
	}
	var out *conn
	for _, c := range m.conns {
		if c.state != pending || !c.inbound {
			continue
		}
		if out == nil || count[c.group] > count[out.group] || count[c.group] == count[out.group] && c.since.Before(out.since) {
			out = c
		}
	}
	if out != nil && count[out.group] <= count[group]+1 && time.Since(out.since) < rlpxTimeout {
		return nil
	}
	return out
}
