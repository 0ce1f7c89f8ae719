package dirserver

import (
	"context"
	"io"
	"net/netip"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/stream"
)

// Begin takes a directory stream of a circuit (tor-spec, "BEGIN_DIR") and returns
// what serves it until it ends, or ctx does. If the server has no room for the
// client, it ends the stream with RESOURCELIMIT, and serve is nil. serve is also
// nil if the circuit closes meanwhile. An error is the client's violation. The caller has
// asked Admit.
func (s *Server) Begin(ctx context.Context, h *circuit.Hop, id uint16) (serve func(), err error) {
	st, err := stream.Accept(h, id, "directory")
	if err != nil {
		return nil, err
	}
	peer := tunnelled(h.Circuit())
	v := s.room.enter(peer, s.rank(peer.Addr))
	if v == nil {
		s.stats.Refused.Add(1)
		return nil, fault.Except(fault.Closed, st.Reject(cell.EndResourceLimit, netip.Addr{}, 0))
	}
	if err := st.Connected(netip.Addr{}, 0); err != nil {
		v.leave()
		return nil, fault.Except(fault.Closed, err)
	}
	v.wanted = st.Wanted
	return func() { s.serve(ctx, st, v) }, nil
}

// tunnelled says whose circuit asks: the other end of the circuit's link, or
// somebody behind it if that is a relay.
func tunnelled(c *circuit.Circuit) Peer {
	ch := c.Channel()
	return Peer{Addr: ch.RemoteAddr(), Tunnelled: true, MultiHop: c.MultiHop(), Link: ch, Circuit: c, Account: c.Account()}
}

// broke returns what ends a connection after a panic. A stream ends with INTERNAL:
// the client must not take what it has for the whole answer.
func broke(conn io.Closer) func(error) {
	return func(error) {
		if st, ok := conn.(*stream.Stream); ok {
			_ = st.CloseReason(cell.EndInternal) // an error means that the circuit is gone
		}
	}
}
