package circuit

import (
	"github.com/chivenet/chive/internal/bin"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
)

// target reads which relay an EXTEND2 of the given form names, and judges that as
// C tor does; from is the relay that the circuit came from, zero for a client.
func (s *Server) target(from ident.RelayID, m cell.Extend2, form *cell.Form) (linkspec.Target, error) {
	var none linkspec.Target
	k, err := s.kind(m.Type, form)
	if err != nil {
		return none, err
	}
	if m.Type == cell.HandshakeTAP {
		return none, fault.New(fault.Protocol, "EXTEND2: TAP is obsolete")
	}
	r := bin.NewReader("EXTEND2", m.Specs)
	t, err := linkspec.TargetOf(linkspec.Read(&r))
	if err != nil {
		return none, err
	}
	if err := s.complete(&t, k); err != nil {
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

// complete compares what an EXTEND2 says with the directory. It adds an Ed25519
// identity that is missing. It refuses a handshake in long cells that the target
// does not advertise, because the target may not know such cells.
func (s *Server) complete(t *linkspec.Target, k *handshake.Kind) error {
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
	if k != nil && k.Form == cell.FormLong && !known.Proto.Has(k.Proto, k.Version) {
		return fault.New(fault.Protocol, "EXTEND2: %s, which the next relay does not advertise", k.Name)
	}
	return nil
}

// same reports whether two relays have one identity in common: a relay that lies
// about the other one is the same relay.
func same(a, b ident.RelayID) bool {
	return !a.RSA.IsZero() && a.RSA.Equal(b.RSA) || !a.Ed.IsZero() && a.Ed.Equal(b.Ed)
}
