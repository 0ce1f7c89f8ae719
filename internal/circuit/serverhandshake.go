package circuit

import (
	"crypto/rand"
	"slices"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/protover"
)

// parseSpoken reads ServerConfig.PQ.
func parseSpoken(versions []string) []protover.Set {
	var out []protover.Set
	for _, v := range versions {
		// A list that cannot be read says nothing.
		if set, err := protover.Parse(handshake.ProtoName + "=" + v); err == nil {
			out = append(out, set)
		}
	}
	return out
}

// advertises reports whether this relay has advertised a version of the
// post-quantum subprotocol lately.
func (s *Server) advertises(version int) bool {
	return slices.ContainsFunc(s.speaks, func(set protover.Set) bool { return set.Has(handshake.ProtoName, version) })
}

// kind returns the handshake that a client asks for, of this relay or of the next
// one, by a cell or message of the given form; nil: one that this relay does not
// know. A handshake comes in its own form, and a hybrid only with a parameter set
// that this relay advertises (docs/spec/pq-circuits.md, section 4).
func (s *Server) kind(typ cell.HandshakeType, form *cell.Form) (*handshake.Kind, error) {
	k := handshake.OfType(typ)
	switch {
	case k == nil && form == cell.FormShort:
		return nil, nil
	case k == nil:
		return nil, fault.New(fault.Protocol, "%v in %v is not known", typ, form.Create)
	case k.Form != form:
		return nil, fault.New(fault.Protocol, "%s does not come in %v", k.Name, form.Create)
	case k.Set.Valid() && !s.advertises(k.Version):
		return nil, fault.New(fault.Protocol, "%s, which this relay does not advertise", k.Name)
	}
	return k, nil
}

// relay returns what this relay answers handshakes with.
func (s *Server) relay() *handshake.Relay {
	return &handshake.Relay{ID: s.cfg.ID, Onion: s.cfg.Onion(), PQ: s.cfg.PQ}
}

// handshake does a relay's part of a handshake.
func (s *Server) handshake(k *handshake.Kind, skin []byte) (created []byte, t terms, err error) {
	t = terms{name: k.Name, crypto: tor1, pq: k.Set}
	reply, ks, err := k.Serve(rand.Reader, s.relay(), skin, func(msg []byte) ([]byte, error) { return s.negotiate(msg, &t) })
	if err != nil {
		return nil, t, err
	}
	t.keys = ks
	m := cell.Created2{Data: reply}
	return k.Form.AppendCreated(nil, &m), t, nil
}

// negotiate answers the client's ntor-v3 extensions, and notes in t what holds.
func (s *Server) negotiate(msg []byte, t *terms) ([]byte, error) {
	exts, err := cell.ParseExts(msg)
	if err != nil {
		return nil, err
	}
	var out []cell.Ext
	if _, ok := cell.FindExt(exts, cell.ExtCCRequest); ok {
		t.inc = s.cfg.Flow().SendmeInc
		out = append(out, cell.CCResponse(uint8(t.inc)))
	}
	if body, ok := cell.FindExt(exts, cell.ExtSubprotoRequest); ok {
		wanted, err := CGORequested(body)
		if err != nil {
			return nil, err
		}
		if wanted {
			t.crypto = cgo
		}
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	return cell.AppendExts(nil, out), nil
}

// requestCGO is the request that CGORequested reads.
var requestCGO = cell.Subproto{Protocol: cell.SubprotoRelay, Version: protover.RelayCGO}

// RequestCGO asks for CGO: a relay in ntor-v3, or an onion service in INTRODUCE1.
func RequestCGO() cell.Ext { return cell.SubprotoRequest(requestCGO) }

// CGORequested reads the body of a subprotocol request and reports whether it asks for
// CGO. A request for anything else is an error: nobody could answer that it does not
// hold (proposal 346).
func CGORequested(body []byte) (bool, error) {
	all, err := cell.ParseSubprotoRequest(body)
	if err != nil {
		return false, err
	}
	for _, w := range all {
		if w != requestCGO {
			return false, fault.New(fault.Protocol, "subprotocol %d=%d was requested, which nobody advertises", w.Protocol, w.Version)
		}
	}
	return len(all) > 0, nil
}

// finish installs the client's hop and answers its cell.
func (s *Server) finish(c *Circuit, k *handshake.Kind, created []byte, t terms) error {
	if t.crypto == cgo {
		s.cfg.Stats.CGO.Add(1)
	}
	if t.inc > 0 {
		s.cfg.Stats.Congestion.Add(1)
	}
	h, err := c.newHop(t, HopInfo{}, s.cfg.Flow(), 0)
	if err != nil {
		return err
	}
	if s.advertises(handshake.ProtoRekey) {
		h.rekey.keep(t.keys)
	}
	c.addHop(h)
	return sendCell(c.home.Load(), k.Form.Created, created)
}
