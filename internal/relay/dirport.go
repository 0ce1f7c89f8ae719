package relay

import (
	"net"

	"github.com/chivenet/chive/internal/netaddr"
)

// dirListener accepts the connections of a DirPort under the relay's limits.
type dirListener struct {
	net.Listener
	r *Relay
}

// Accept implements net.Listener. It closes connections beyond the limits.
func (l dirListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := netaddr.Of(conn.RemoteAddr())
		if l.r.draining.Load() || l.r.resting.Load() || !l.r.gate.enter(l.r.dos.near(from)) {
			l.r.stats.ConnsRefused.Add(1)
			conn.Close()
			continue
		}
		if !l.r.dos.connect(from) {
			l.r.stats.ConnsRefused.Add(1)
			l.r.gate.leave()
			conn.Close()
			continue
		}
		c := &gatedConn{Conn: conn, ticket: ticket{gate: l.r.gate, closed: func() { l.r.dos.disconnect(from) }}}
		return l.r.limits.limit(&dirConn{c, &l.r.stats}), nil
	}
}

// dirConn is a connection of the DirPort, whose bytes are counted.
type dirConn struct {
	net.Conn
	stats *Stats
}

func (c *dirConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.stats.DirBytesIn.Add(uint64(max(n, 0)))
	return n, err
}

func (c *dirConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.stats.DirBytesOut.Add(uint64(max(n, 0)))
	return n, err
}
