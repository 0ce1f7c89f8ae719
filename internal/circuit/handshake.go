package circuit

import (
	"crypto/rand"
	"io"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
)

// HopOptions says what to offer to a hop. A client does not offer what the relay
// leaves out of its subprotocol versions.
type HopOptions struct {
	// Handshake makes the hop; nil is the best default one that the relay
	// advertises. handshake.Fast is for a first hop of which no onion key is known:
	// the channel's TLS is all that protects such a circuit. The post-quantum hybrid
	// (carriage A) needs, on a further hop, that the relay before advertises it too.
	Handshake *handshake.Kind
	// Congestion offers congestion control. It is for every hop, although only the last one
	// has streams: CGO needs it.
	Congestion bool
	// CGO offers counter galois onion relay crypto (proposal 359), where
	// congestion control is offered, too.
	CGO bool
	// Flow holds the consensus's parameters; nil means the defaults.
	Flow *flow.Params
	// Path says which of Vegas's parameter sets the circuit has.
	Path flow.Path
	// OneAddress sends an address and the identities of the target alone, as C tor's clients do: the relay before would see
	// from more of them which program asks. Specs does not matter then.
	OneAddress bool
	// Specs, when not nil, are sent in place of the target's link specifiers: those of
	// an introduction or rendezvous point, unchanged and in their order.
	Specs []linkspec.Spec
}

// clientHandshake is one hop's handshake under way.
type clientHandshake struct {
	target    linkspec.Target
	opts      HopOptions
	kind      *handshake.Kind
	state     handshake.Client
	onionskin []byte
	cc, cgo   bool          // offered
	spent     time.Duration // computing, up to now
	ahead     time.Duration // part of spent: while the hop before was not there yet
}

func startHandshake(env *Env, t linkspec.Target, opts HopOptions) (*clientHandshake, error) {
	began := env.Now()
	hs, err := newHandshake(env.ahead.Before(rand.Reader), t, opts)
	if err != nil {
		return nil, err
	}
	hs.spent = env.Now().Sub(began)
	return hs, nil
}

func newHandshake(rnd io.Reader, t linkspec.Target, opts HopOptions) (*clientHandshake, error) {
	hs := &clientHandshake{target: t, opts: opts, kind: opts.Handshake}
	if opts.Flow == nil {
		p := flow.DefaultParams()
		hs.opts.Flow = &p
	}
	if hs.kind == nil {
		hs.kind = handshake.Best(&t)
	}
	switch {
	case t.Ntor.IsZero() && hs.kind.Cost > handshake.CostHash:
		return nil, fault.New(fault.Directory, "the relay's onion key is not known")
	case !hs.kind.SpokenBy(&t):
		return nil, fault.New(fault.Local, "the relay does not advertise %s", hs.kind.Name)
	}
	var exts []byte
	if hs.kind.Extensions {
		exts = hs.request()
	}
	var err error
	hs.state, hs.onionskin, err = hs.kind.Start(rnd, &t, exts)
	return hs, err
}

// prepare does what can be done before the answer comes, and makes the next handshake's
// key pair.
func (hs *clientHandshake) prepare(env *Env) {
	began := env.Now()
	hs.state.Prepare()
	hs.spent += env.Now().Sub(began)
	_ = env.ahead.Make(rand.Reader) // never fails (crypto/rand)
}

// specs returns the link specifiers to send.
func (hs *clientHandshake) specs() []linkspec.Spec {
	switch {
	case hs.opts.OneAddress:
		one := hs.target.OneAddress()
		return one.Specs()
	case hs.opts.Specs != nil:
		return hs.opts.Specs
	}
	return hs.target.Specs()
}

// wipe forgets the secrets of a handshake that failed, or that nobody wants any
// more.
func (hs *clientHandshake) wipe() { hs.state.Wipe() }

// request returns the ntor-v3 extensions to offer.
func (hs *clientHandshake) request() []byte {
	var exts []cell.Ext
	p := hs.target.Proto
	if hs.opts.Congestion && p.Has(protover.FlowCtrl, protover.FlowCtrlCC) {
		hs.cc = true
		exts = append(exts, cell.CCRequest())
	}
	// Never without congestion control: see terms.check.
	if hs.opts.CGO && hs.cc && p.Has(protover.Relay, protover.RelayNegotiate) && p.Has(protover.Relay, protover.RelayCGO) {
		hs.cgo = true
		exts = append(exts, RequestCGO())
	}
	return cell.AppendExts(nil, exts)
}

// sendCell sends a cell that opens a circuit or answers that.
func sendCell(to *channel.CircuitEnd, cmd cell.Command, body []byte) error {
	if cmd.IsVariable() {
		return to.SendLong(cmd, body)
	}
	return to.SendControl(cmd, body)
}

// create sends the link cell that carries the onionskin.
func (hs *clientHandshake) create(home *channel.CircuitEnd) error {
	m := cell.Create2{Type: hs.kind.Type, Data: hs.onionskin}
	return sendCell(home, hs.kind.Form.Create, hs.kind.Form.AppendCreate(nil, &m))
}

func (hs *clientHandshake) finishCell(c *Circuit, r reply) (*Hop, error) {
	form := hs.kind.Form
	if r.cmd != form.Created {
		return nil, fault.New(fault.Protocol, "%v answers %v", r.cmd, form.Create)
	}
	m, err := form.ParseCreated(r.body)
	if err != nil {
		return nil, err
	}
	return hs.finish(c, m.Data)
}

// finish verifies the relay's answer and makes the hop.
func (hs *clientHandshake) finish(c *Circuit, answer []byte) (*Hop, error) {
	began := c.env.Now()
	exts, ks, err := hs.state.Finish(answer)
	if err != nil {
		return nil, err
	}
	t := terms{name: hs.kind.Name, keys: ks, crypto: tor1, pq: hs.kind.Set}
	if hs.kind.Extensions {
		if err := hs.negotiated(exts, &t); err != nil {
			return nil, err
		}
	}
	target := hs.target // without the handshake's secrets
	h, err := c.newHop(t, HopInfo{Target: &target, Client: true, HalfClose: hs.target.Proto.Has(protover.ChiveStream, protover.StreamHalfClose)}, hs.opts.Flow, hs.opts.Path)
	if err != nil {
		return nil, err
	}
	h.rekey.keep(ks)
	h.spent, h.ahead = hs.spent+c.env.Now().Sub(began), hs.ahead
	return h, nil
}

// negotiated reads the relay's ntor-v3 extensions into t. An answer to a request
// that was not made is a violation.
func (hs *clientHandshake) negotiated(msg []byte, t *terms) error {
	exts, err := cell.ParseExts(msg)
	if err != nil {
		return err
	}
	if body, ok := cell.FindExt(exts, cell.ExtCCResponse); ok {
		if !hs.cc {
			return fault.New(fault.Protocol, "the relay answers a request for congestion control that was not made")
		}
		v, err := cell.ParseCCResponse(body)
		if err != nil {
			return err
		}
		if !hs.opts.Flow.AcceptIncrement(int(v)) {
			return fault.New(fault.Protocol, "the relay's SENDME increment of %d is far from the consensus's", v)
		}
		t.inc = int(v)
	}
	// A relay that takes a subprotocol request says nothing: it either does
	// what was asked or fails the handshake (proposal 346).
	if hs.cgo {
		t.crypto = cgo
	}
	return t.check()
}
