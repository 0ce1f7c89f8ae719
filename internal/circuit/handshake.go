package circuit

import (
	"io"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/layer"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
)

// HopOptions says what to offer to a hop. What a relay does not advertise in
// its subprotocol versions is not offered to it.
type HopOptions struct {
	// Fast uses CREATE_FAST: for a first hop of which no onion key is known.
	// The channel's TLS is all that protects such a circuit.
	Fast bool
	// NoNtorV3 keeps to ntor even with a relay that speaks ntor-v3.
	NoNtorV3 bool
	// Congestion offers congestion control: for a hop that streams end at.
	Congestion bool
	// CGO offers counter galois onion relay crypto (proposal 359), where
	// congestion control is offered, too.
	CGO bool
	// Flow holds the consensus's parameters; nil means the defaults.
	Flow *flow.Params
	// PQ makes the hop by the post-quantum hybrid with this parameter set, in
	// one pass (carriage A). The relay, and on a further hop the one before it,
	// must advertise the set: startHandshake checks the former.
	PQ handshake.PQSet
	// Path says which of Vegas's parameter sets the circuit has.
	Path flow.Path
}

// clientHandshake is one hop's handshake under way.
type clientHandshake struct {
	target    linkspec.Target
	opts      HopOptions
	typ       cell.HandshakeType
	onionskin []byte
	cc, cgo   bool          // offered
	spent     time.Duration // computing, up to now
	ahead     time.Duration // of it, while the hop before was still awaited

	fast *handshake.FastClientState
	ntor *handshake.NtorClientState
	v3   *handshake.NtorV3State
	pq   *handshake.PQState
}

// verification is ntor-v3's verification string for circuit extension
// (proposal 332).
const verification = "circuit extend"

func startHandshake(env *Env, rnd io.Reader, t linkspec.Target, opts HopOptions) (*clientHandshake, error) {
	began := env.Now()
	hs, err := newHandshake(rnd, t, opts)
	if err == nil {
		hs.spent = env.Now().Sub(began)
	}
	return hs, err
}

func newHandshake(rnd io.Reader, t linkspec.Target, opts HopOptions) (*clientHandshake, error) {
	hs := &clientHandshake{target: t, opts: opts}
	if opts.Flow == nil {
		p := flow.DefaultParams()
		hs.opts.Flow = &p
	}
	var err error
	switch {
	case opts.Fast:
		hs.fast, hs.onionskin, err = handshake.FastClient(rnd)
	case t.Ntor.IsZero():
		return nil, fault.New(fault.Directory, "the relay's onion key is not known")
	case opts.PQ.Valid():
		if !t.Proto.Has(handshake.ProtoName, int(opts.PQ)) || t.Ed.IsZero() {
			return nil, fault.New(fault.Local, "the relay does not advertise %v", opts.PQ)
		}
		hs.typ = cell.HandshakeType(opts.PQ.HandshakeType())
		ver := handshake.PQVerification(handshake.CarriageA, t.Proto.Versions(handshake.ProtoName))
		hs.pq, hs.onionskin, err = handshake.PQClient(rnd, opts.PQ, t.Ed, t.Ntor, ver, hs.request())
	case !opts.NoNtorV3 && t.Proto.Has(protover.Relay, protover.RelayNtorV3) && !t.Ed.IsZero():
		hs.typ = cell.HandshakeNtorV3
		hs.v3, hs.onionskin, err = handshake.NtorV3Client(rnd, t.Ed, t.Ntor, []byte(verification), hs.request())
	default:
		hs.typ = cell.HandshakeNtor
		hs.ntor, hs.onionskin, err = handshake.NtorClient(rnd, t.RSA, t.Ntor)
	}
	return hs, err
}

// wipe forgets the secrets, if there still are any: of a handshake that failed,
// or was given up.
func (hs *clientHandshake) wipe() {
	switch {
	case hs.pq != nil:
		hs.pq.Wipe()
	case hs.v3 != nil:
		hs.v3.Wipe()
	case hs.ntor != nil:
		hs.ntor.Wipe()
	}
}

// request returns the ntor-v3 extensions to offer.
func (hs *clientHandshake) request() []byte {
	var exts []cell.Ext
	p := hs.target.Proto
	if hs.opts.Congestion && p.Has(protover.FlowCtrl, protover.FlowCtrlCC) {
		hs.cc = true
		exts = append(exts, cell.CCRequest())
	}
	// Never without congestion control: see checkAgreed.
	if hs.opts.CGO && hs.cc && p.Has(protover.Relay, protover.RelayNegotiate) && p.Has(protover.Relay, protover.RelayCGO) {
		hs.cgo = true
		exts = append(exts, cell.SubprotoRequest(cell.Subproto{Protocol: cell.SubprotoRelay, Version: protover.RelayCGO}))
	}
	return cell.AppendExts(nil, exts)
}

// create sends the link cell that carries the onionskin.
func (hs *clientHandshake) create(home *channel.Circ) error {
	m := cell.Create2{Type: hs.typ, Data: hs.onionskin}
	switch {
	case hs.fast != nil:
		return home.SendControl(cell.CmdCreateFast, hs.onionskin)
	case hs.pq != nil:
		return home.SendLong(cell.CmdLongCreate2, m.Append(nil))
	}
	return home.SendControl(cell.CmdCreate2, m.Append(nil))
}

func (hs *clientHandshake) finishCell(c *Circuit, r reply) (*Hop, error) {
	if hs.fast != nil {
		if r.cmd != cell.CmdCreatedFast {
			return nil, fault.New(fault.Protocol, "%v answers CREATE_FAST", r.cmd)
		}
		return hs.finish(c, r.body[:cell.CreatedFastLen])
	}
	want, parse := cell.CmdCreated2, cell.ParseCreated2
	if hs.pq != nil {
		want, parse = cell.CmdLongCreated2, cell.ParseLongCreated2
	}
	if r.cmd != want {
		return nil, fault.New(fault.Protocol, "%v answers %v", r.cmd, hs.typ)
	}
	m, err := parse(r.body)
	if err != nil {
		return nil, err
	}
	return hs.finish(c, m.Data)
}

// finish verifies the relay's answer and makes the hop.
func (hs *clientHandshake) finish(c *Circuit, answer []byte) (*Hop, error) {
	began := c.env.Now()
	info := HopInfo{Target: hs.target, Layer: "tor1", Client: true}
	var ks handshake.KeyStream
	var err error
	cgo := false
	inc := 0
	switch {
	case hs.fast != nil:
		info.Handshake = "create-fast"
		ks, err = hs.fast.Finish(answer)
	case hs.ntor != nil:
		info.Handshake = "ntor"
		ks, err = hs.ntor.Finish(answer)
	default:
		var msg []byte
		if hs.pq != nil {
			info.Handshake, info.PQ, info.Carriage = hs.opts.PQ.String(), hs.opts.PQ, handshake.CarriageA
			msg, ks, err = hs.pq.Finish(answer)
		} else {
			info.Handshake = "ntor-v3"
			msg, ks, err = hs.v3.Finish(answer)
		}
		if err == nil {
			inc, cgo, err = hs.negotiated(msg)
		}
	}
	if err != nil {
		return nil, err
	}
	newLayer := layer.NewTor1Client
	if cgo {
		newLayer, info.Layer = layer.NewCGOClient, "cgo"
	}
	lay, err := newLayer(ks)
	if err != nil {
		return nil, err
	}
	info.KH = lay.KH
	h := &Hop{c: c, format: lay.Format, seal: lay.Forward, open: lay.Backward}
	h.rekey.keep(ks)
	h.setFlow(&info, inc, hs.opts.Flow, hs.opts.Path)
	h.spent, h.ahead = hs.spent+c.env.Now().Sub(began), hs.ahead
	h.info = info
	return h, nil
}

// negotiated reads the relay's ntor-v3 extensions: an answer to what was not
// asked is a violation. The SENDME increment is zero without congestion control.
func (hs *clientHandshake) negotiated(msg []byte) (inc int, cgo bool, err error) {
	exts, err := cell.ParseExts(msg)
	if err != nil {
		return 0, false, err
	}
	if body, ok := cell.FindExt(exts, cell.ExtCCResponse); ok {
		if !hs.cc {
			return 0, false, fault.New(fault.Protocol, "the relay answers a request for congestion control that was not made")
		}
		v, err := cell.ParseCCResponse(body)
		if err != nil {
			return 0, false, err
		}
		if !hs.opts.Flow.AcceptIncrement(int(v)) {
			return 0, false, fault.New(fault.Protocol, "the relay's SENDME increment of %d is far from the consensus's", v)
		}
		inc = int(v)
	}
	// A relay that takes a subprotocol request says nothing: it either does
	// what was asked or fails the handshake (proposal 346).
	return inc, hs.cgo, checkAgreed(inc, hs.cgo)
}

// checkAgreed refuses CGO without congestion control, on either side, as C tor
// does: relay cells of the layout that CGO brings cannot say which stream a
// SENDME is for, so fixed windows do not work with them.
func checkAgreed(inc int, cgo bool) error {
	if cgo && inc == 0 {
		return fault.New(fault.Protocol, "the handshake agrees on CGO but not on congestion control")
	}
	return nil
}

// setFlow installs congestion control with the given increment, or fixed
// windows when it is zero.
func (h *Hop) setFlow(info *HopInfo, inc int, p *flow.Params, kind flow.Path) {
	info.Flow, info.MaxData = p, h.format.MaxData(true)
	if inc == 0 {
		info.SendmeInc = flow.CircWindowIncrement
		h.send = flow.NewWindowSender(p)
		h.recv = flow.NewReceiver(flow.CircWindowIncrement)
		return
	}
	info.Congestion, info.SendmeInc = true, inc
	h.send = flow.NewVegasSender(p, kind, inc)
	h.recv = flow.NewReceiver(inc)
}
