package stream

import (
	"net/netip"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
)

// Accept takes a stream that a client opened with the identifier id; name is
// what RemoteAddr says. The client may send at once (optimistic data); nothing
// may be written before Connected.
func Accept(h *circuit.Hop, id uint16, name string) (*Stream, error) {
	s := newStream(h, name, 0)
	s.id = id
	s.accepted = true
	s.connected = true
	if err := h.AcceptStream(id, s); err != nil {
		s.account.Close()
		return nil, err
	}
	return s, nil
}

// Connected tells the client that the stream is open, to the address addr
// (invalid: not told, as for a directory stream) whose name may be remembered
// for ttl seconds. If that fails, the circuit has closed; then the
// stream closes too, and gives back what it holds.
func (s *Stream) Connected(addr netip.Addr, ttl uint32) error {
	m := cell.Connected{Addr: addr, TTL: ttl}
	err := s.hop.Send(cell.RelayConnected, s.id, m.Append(nil))
	if err != nil {
		_ = s.Close() // an error says once more that the circuit is closed
	}
	return err
}

// Reject refuses the stream; addr is what the name resolved to, for
// cell.EndExitPolicy.
func (s *Stream) Reject(reason cell.EndReason, addr netip.Addr, ttl uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endSent = true
	s.closed = true
	s.finishLocked(errClosed, errClosed)
	s.buf.clear(s.account) // what came before the refusal
	s.account.Close()
	var err error
	if !s.peerEnded { // who has ended the stream waits for nothing
		m := cell.End{Reason: reason, Addr: addr, TTL: ttl}
		err = s.hop.Send(cell.RelayEnd, s.id, m.Append(nil))
	}
	s.hop.RemoveStream(s.id, s.peerEnded)
	return err
}
