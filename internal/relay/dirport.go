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
		tcp := conn.(*net.TCPConn)
		from := netaddr.Of(tcp.RemoteAddr())
		if l.r.draining.Load() || !l.r.gate.enter(l.r.dos.near(from)) {
			l.r.stats.ConnsRefused.Add(1)
			tcp.Close()
			continue
		}
		if !l.r.dos.connect(from) {
			l.r.stats.ConnsRefused.Add(1)
			l.r.gate.leave()
			tcp.Close()
			continue
		}
		return l.r.limits.limit(&counted{TCPConn: tcp, gate: l.r.gate, closed: func() { l.r.dos.disconnect(from) }}), nil
	}
}
