package hostile

import (
	"crypto/rand"
	"encoding/binary"
	"io"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/layer"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
)

// now is the bubble's time.
func now() time.Time { return time.Now() }

// call is a handshake that the hostile client has begun.
type call struct {
	typ    cell.HandshakeType
	form   *cell.Form
	skin   []byte
	finish func(answer []byte) (*hop, error)
}

// Options of a hostile handshake, one bit each; an honest client uses only the
// first two.
const (
	optCC = 1 << iota
	optCGO
	optUnknown // an unknown extension
	optTwice   // the extensions twice
	optOther   // a subprotocol that was not advertised
	optCorrupt // a bit of the onionskin is wrong
	optOdd     // the onionskin's length is wrong
	optMisfit  // the cell of the other kind of handshake
)

// types are the kinds of handshakes, honest ones first.
var types = []cell.HandshakeType{
	cell.HandshakeNtorV3, cell.HandshakeNtor, cell.HandshakeFast,
	handshake.PQHandshakeBase + 2, handshake.PQHandshakeBase + 1, handshake.PQHandshakeBase + 3,
	0x7777, 0,
}

// isPQ reports whether a handshake travels in long messages.
func isPQ(t cell.HandshakeType) bool {
	k := handshake.OfType(t)
	return k != nil && k.Form == cell.FormLong
}

func advertised(t linkspec.Target) string { return t.Proto.Versions(handshake.ProtoName) }

// extensions returns the client's request.
func extensions(opts byte) []byte {
	var exts []cell.Ext
	if opts&optCC != 0 {
		exts = append(exts, cell.CCRequest())
	}
	var caps []byte
	if opts&optCGO != 0 {
		caps = append(caps, cell.SubprotoRelay, protover.RelayCGO)
	}
	if opts&optOther != 0 {
		caps = append(caps, cell.SubprotoHSDir, 2)
	}
	if caps != nil {
		exts = append(exts, cell.Ext{Type: cell.ExtSubprotoRequest, Body: caps})
	}
	if opts&optUnknown != 0 {
		exts = append(exts, cell.Ext{Type: 99, Body: []byte("nobody knows")})
	}
	if opts&optTwice != 0 {
		exts = append(exts, exts...)
	}
	return cell.AppendExts(nil, exts)
}

// newCall begins a handshake with a relay.
func newCall(t linkspec.Target, typ cell.HandshakeType, opts byte) *call {
	c := &call{typ: typ, form: cell.FormShort}
	k := handshake.OfType(typ)
	if k == nil {
		c.skin = make([]byte, 84)
		c.finish = func([]byte) (*hop, error) { return nil, fault.New(fault.Protocol, "no such handshake") }
	} else {
		st, skin, err := k.Start(rand.Reader, &t, extensions(opts))
		if err != nil {
			panic(err) // the targets are well-formed, and randomness never fails
		}
		c.form, c.skin = k.Form, skin
		c.finish = func(body []byte) (*hop, error) {
			m, err := k.Form.ParseCreated(body)
			if err != nil {
				return nil, err
			}
			msg, ks, err := st.Finish(m.Data)
			if err != nil {
				return nil, err
			}
			return clientHop(ks, k.Extensions && opts&optCGO != 0, msg)
		}
	}
	if opts&optCorrupt != 0 {
		c.skin[len(c.skin)-1] ^= 1
	}
	if opts&optOdd != 0 {
		c.skin = c.skin[:len(c.skin)-1-int(c.skin[0])%7]
	}
	return c
}

// clientHop makes the client's half of a hop.
func clientHop(ks handshake.KeyStream, cgo bool, msg []byte) (*hop, error) {
	newLayer := layer.NewTor1Client
	if cgo {
		newLayer = layer.NewCGOClient
	}
	lay, err := newLayer(ks)
	if err != nil {
		return nil, err
	}
	h := &hop{seal: lay.Forward, open: lay.Backward, format: lay.Format, cgo: cgo, inc: 100, kh: lay.KH}
	if exts, err := cell.ParseExts(msg); err == nil && msg != nil {
		if b, ok := cell.FindExt(exts, cell.ExtCCResponse); ok && len(b) == 1 {
			h.inc = int(b[0])
		}
	}
	h.keep(ks)
	return h, nil
}

// relayHop makes the relay's half of a hop.
func relayHop(ks io.Reader, cgo bool, inc int) (*hop, error) {
	newLayer := layer.NewTor1Relay
	if cgo {
		newLayer = layer.NewCGORelay
	}
	lay, err := newLayer(ks)
	if err != nil {
		return nil, err
	}
	h := &hop{seal: lay.Backward, open: lay.Forward, format: lay.Format, cgo: cgo, inc: inc}
	h.keep(ks)
	return h, nil
}

func (h *hop) keep(ks handshake.KeyStream) {
	if e, ok := ks.(handshake.Exporter); ok {
		h.export = e.Export(handshake.RekeyExportLabel)
	}
}

// cells returns the link cell that begins the handshake on a circuit.
func (c *call) cells(id uint32, opts byte) []byte {
	if c.form == cell.FormFast && opts&optMisfit == 0 {
		return cell.AppendFixed(nil, id, cell.CmdCreateFast, c.skin)
	}
	if c.typ == 0 {
		return cell.AppendFixed(nil, id, cell.CmdCreate, c.skin)
	}
	body := binary.BigEndian.AppendUint16(nil, uint16(c.typ))
	body = binary.BigEndian.AppendUint16(body, uint16(len(c.skin)))
	body = append(body, c.skin...)
	if long := c.form == cell.FormLong; long != (opts&optMisfit != 0) {
		return cell.AppendVar(nil, id, cell.CmdLongCreate2, body)
	}
	return cell.AppendFixed(nil, id, cell.CmdCreate2, body[:min(len(body), cell.PayloadLen)])
}

// rekeyRequest begins a rekey of a hop.
func (e *end) rekeyRequest(at int, set handshake.PQSet, verification string) (cells []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at >= len(e.hops) {
		return nil
	}
	h := e.hops[at]
	st, request, err := handshake.RekeyClient(rand.Reader, set, h.export, handshake.PQVerification(handshake.CarriageB, verification))
	if err != nil {
		return nil
	}
	h.rekey = st
	return e.fragmentsLocked(at, false, cell.RelayRekeyRequest, request)
}

// rekeyedLocked continues a rekey, in either role.
func (e *end) rekeyedLocked(at int, cmd cell.RelayCommand, whole []byte) {
	h := e.hops[at]
	switch {
	case cmd == cell.RelayRekeyReply && h.rekey != nil:
		confirm, ks, err := h.rekey.Finish(whole)
		h.rekey = nil
		if err != nil {
			return
		}
		next, err := clientHop(ks, h.cgo, nil)
		if err != nil {
			return
		}
		h.open = next.open
		// The program decides when CONFIRM is sent: see confirm.
		h.confirm = func() []byte {
			cells := e.fragmentsLocked(at, false, cell.RelayRekeyConfirm, confirm)
			h.seal, h.export = next.seal, next.export
			return cells
		}
	case cmd == cell.RelayRekeyRequest:
		e.wants = whole
	case cmd == cell.RelayRekeyConfirm && h.after != nil:
		h.after()
		h.after = nil
	}
}

// confirm returns the cells of a CONFIRM that is due; nil when none is.
func (e *end) confirm(at int) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at >= len(e.hops) || e.hops[at].confirm == nil {
		return nil
	}
	f := e.hops[at].confirm
	e.hops[at].confirm = nil
	return f()
}
