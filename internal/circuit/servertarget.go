package circuit

import (
	"github.com/chivenet/chive/internal/bin"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
)

// target reads whom an EXTEND2 names, and judges that as C tor does; from is the
// relay that the circuit came from, zero for a client. long says that the message
// came in fragments.
func (s *Server) target(from ident.RelayID, m cell.Extend2, long bool) (linkspec.Target, error) {
	var none linkspec.Target
	if m.Type == cell.HandshakeTAP || m.Type == cell.HandshakeFast {
		return none, fault.New(fault.Protocol, "EXTEND2: %v", m.Type)
	}
	if err := s.carries(m.Type, long); err != nil {
		return none, err
	}
	r := bin.NewReader("EXTEND2", m.Specs)
	t, err := linkspec.TargetOf(linkspec.Read(&r))
	if err != nil {
		return none, err
	}
	if err := s.complete(&t, m.Type); err != nil {
		return none, err
	}
	if same(t.RelayID, s.cfg.ID) {
		return none, fault.New(fault.Protocol, "EXTEND2 to this relay itself")
	}
	if same(t.RelayID, from) {
		return none, fault.New(fault.Protocol, "EXTEND2 back to the relay that the circuit came from")
	}
	if s.cfg.AllowTarget != nil {
		if err := s.cfg.AllowTarget(t); err != nil {
			return none, err
		}
	}
	return t, nil
}

// complete holds what an EXTEND2 says against the directory: it adds the Ed25519
// identity that it leaves out, and refuses a post-quantum handshake that the
// target does not advertise, for which it would be sent a cell that it may not
// know.
func (s *Server) complete(t *linkspec.Target, typ cell.HandshakeType) error {
	if s.cfg.Lookup == nil {
		return nil
	}
	known, ok := s.cfg.Lookup(t.RSA)
	if !ok {
		return nil
	}
	if t.Ed.IsZero() {
		t.Ed = known.Ed
	}
	if set, pq := handshake.PQSetOfType(uint16(typ)); pq && !known.Proto.Has(handshake.ProtoName, int(set)) {
		return fault.New(fault.Protocol, "EXTEND2: %v, which the next relay does not advertise", set)
	}
	return nil
}

// same reports whether two relays have one identity in common: a relay that lies
// about the other one is the same relay.
func same(a, b ident.RelayID) bool {
	return !a.RSA.IsZero() && a.RSA.Equal(b.RSA) || !a.Ed.IsZero() && a.Ed.Equal(b.Ed)
}
