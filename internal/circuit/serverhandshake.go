package circuit

import (
	"crypto/rand"
	"slices"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/layer"
	"github.com/chivenet/chive/internal/protover"
)

// serverResult is a finished handshake at a relay.
type serverResult struct {
	cmd   cell.Command
	reply []byte
	ks    handshake.KeyStream
	name  string
	inc   int // congestion control's SENDME increment; zero without
	cgo   bool
	pq    handshake.PQSet
}

// parseSpoken reads ServerConfig.PQ.
func parseSpoken(versions []string) []protover.Set {
	var out []protover.Set
	for _, v := range versions {
		// A list that cannot be read is none: what it says is not spoken.
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

// carries judges a handshake of a client's, for this relay or for the next one:
// the hybrid comes in long messages, which nothing else does, and with a parameter
// set that this relay advertises (docs/spec/pq-circuits.md, section 4).
func (s *Server) carries(typ cell.HandshakeType, long bool) error {
	set, pq := handshake.PQSetOfType(uint16(typ))
	if pq != long {
		return fault.New(fault.Protocol, "%v, and in a long message: %v", typ, long)
	}
	if pq && !s.advertises(int(set)) {
		return fault.New(fault.Protocol, "%v, which this relay does not advertise", set)
	}
	return nil
}

// verifications returns the strings that a client may have bound to a
// post-quantum handshake: one for each thing that was advertised lately.
func (s *Server) verifications(c handshake.Carriage) [][]byte {
	var out [][]byte
	for _, adv := range s.cfg.PQ {
		out = append(out, handshake.PQVerification(c, adv))
	}
	return out
}

// handshake does a relay's part of CREATE2.
func (s *Server) handshake(typ cell.HandshakeType, skin []byte) (serverResult, error) {
	r := serverResult{cmd: cell.CmdCreated2}
	var reply []byte
	var err error
	switch typ {
	case cell.HandshakeNtor:
		r.name = "ntor"
		reply, r.ks, err = handshake.NtorServer(rand.Reader, s.cfg.Onion(), s.cfg.ID.RSA, skin)
	case cell.HandshakeNtorV3:
		r.name = "ntor-v3"
		reply, r.ks, err = handshake.NtorV3Server(rand.Reader, s.cfg.Onion(), s.cfg.ID.Ed, []byte(verification), skin,
			func(msg []byte) ([]byte, error) { return s.negotiate(msg, &r) })
	default:
		set, ok := handshake.PQSetOfType(uint16(typ))
		if !ok || !s.advertises(int(set)) {
			return r, fault.New(fault.Protocol, "CREATE2: %v is not supported", typ)
		}
		r.cmd, r.name, r.pq = cell.CmdLongCreated2, set.String(), set
		reply, r.ks, err = handshake.PQServer(rand.Reader, set, s.cfg.Onion(), s.cfg.ID.Ed, s.verifications(handshake.CarriageA), skin,
			func(msg []byte) ([]byte, error) { return s.negotiate(msg, &r) })
	}
	if err != nil {
		return r, err
	}
	m := cell.Created2{Data: reply}
	r.reply = m.Append(nil)
	return r, nil
}

// negotiate answers the client's ntor-v3 extensions.
func (s *Server) negotiate(msg []byte, r *serverResult) ([]byte, error) {
	exts, err := cell.ParseExts(msg)
	if err != nil {
		return nil, err
	}
	var out []cell.Ext
	if _, ok := cell.FindExt(exts, cell.ExtCCRequest); ok && !s.cfg.NoCongestion {
		r.inc = s.cfg.Flow().SendmeInc
		out = append(out, cell.CCResponse(uint8(r.inc)))
	}
	if body, ok := cell.FindExt(exts, cell.ExtSubprotoRequest); ok {
		want, err := cell.ParseSubprotoRequest(body)
		if err != nil {
			return nil, err
		}
		for _, w := range want {
			if w != (cell.Subproto{Protocol: cell.SubprotoRelay, Version: protover.RelayCGO}) || s.cfg.NoCGO {
				return nil, fault.New(fault.Protocol, "subprotocol %d=%d was requested, which this relay does not advertise", w.Protocol, w.Version)
			}
			r.cgo = true
		}
	}
	if err := checkAgreed(r.inc, r.cgo); err != nil {
		return nil, err
	}
	return cell.AppendExts(nil, out), nil
}

// finish installs the client's hop and answers the CREATE cell.
func (s *Server) finish(c *Circuit, r serverResult) error {
	newLayer, name := layer.NewTor1Relay, "tor1"
	if r.cgo {
		newLayer, name = layer.NewCGORelay, "cgo"
		s.cfg.Stats.CGO.Add(1)
	}
	if r.inc > 0 {
		s.cfg.Stats.Congestion.Add(1)
	}
	lay, err := newLayer(r.ks)
	if err != nil {
		return err
	}
	info := HopInfo{Handshake: r.name, Layer: name, KH: lay.KH, PQ: r.pq}
	if r.pq.Valid() {
		info.Carriage = handshake.CarriageA
	}
	h := &Hop{c: c, format: lay.Format, seal: lay.Backward, open: lay.Forward}
	h.setFlow(&info, r.inc, s.cfg.Flow(), 0)
	h.info = info
	if s.advertises(handshake.ProtoRekey) {
		h.rekey.keep(r.ks)
	}
	c.addHop(h)
	if r.cmd == cell.CmdLongCreated2 {
		return c.home.Load().SendLong(r.cmd, r.reply)
	}
	return c.home.Load().SendControl(r.cmd, r.reply)
}
