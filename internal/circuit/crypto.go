package circuit

import (
	"io"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/layer"
	"github.com/chivenet/chive/internal/linkspec"
)

// sealer adds relay crypto to cells that go home: layer.ClientForward or
// layer.RelayBackward.
type sealer interface {
	Originate(cmd cell.Command, p *[cell.PayloadLen]byte)
	Encrypt(cmd cell.Command, p *[cell.PayloadLen]byte)
	Tag() []byte
}

// opener removes relay crypto from cells that come from home:
// layer.ClientBackward or layer.RelayForward.
type opener interface {
	Open(cmd cell.Command, p *[cell.PayloadLen]byte) bool
	Tag() []byte
}

// hopKeys is one end's relay crypto.
type hopKeys struct {
	seal   sealer
	open   opener
	format cell.RelayFormat
	kh     [20]byte
}

// relayCrypto is a kind of relay crypto: how either end makes its keys.
type relayCrypto struct {
	name          string
	client, relay func(handshake.KeyStream) (hopKeys, error)
	congestion    bool // it needs congestion control; see terms.check
}

// The kinds.
var (
	tor1 = &relayCrypto{"tor1", clientEnd(layer.NewTor1Client), relayEnd(layer.NewTor1Relay), false}
	cgo  = &relayCrypto{"cgo", clientEnd(layer.NewCGOClient), relayEnd(layer.NewCGORelay), true}
	// These two are of virtual hops. The service stands where a relay does; both
	// ends are clients of their own circuits.
	rendezvous    = virtualCrypto("tor1-sha3", layer.NewTor1Rendezvous, false)
	rendezvousCGO = virtualCrypto("cgo", layer.NewCGORendezvous, true)
)

func clientEnd(newLayer func(io.Reader) (*layer.Client, error)) func(handshake.KeyStream) (hopKeys, error) {
	return func(ks handshake.KeyStream) (hopKeys, error) {
		l, err := newLayer(ks)
		if err != nil {
			return hopKeys{}, err
		}
		return hopKeys{l.Forward, l.Backward, l.Format, l.KH}, nil
	}
}

func virtualCrypto(name string, newLayer func(ks io.Reader, service bool) (*layer.Client, error), congestion bool) *relayCrypto {
	end := func(service bool) func(handshake.KeyStream) (hopKeys, error) {
		return clientEnd(func(ks io.Reader) (*layer.Client, error) { return newLayer(ks, service) })
	}
	return &relayCrypto{name, end(false), end(true), congestion}
}

func relayEnd(newLayer func(io.Reader) (*layer.Relay, error)) func(handshake.KeyStream) (hopKeys, error) {
	return func(ks handshake.KeyStream) (hopKeys, error) {
		l, err := newLayer(ks)
		if err != nil {
			return hopKeys{}, err
		}
		return hopKeys{l.Backward, l.Forward, l.Format, l.KH}, nil
	}
}

// terms is what the two ends of a hop agreed on by a handshake.
type terms struct {
	name   string // of the handshake
	keys   handshake.KeyStream
	crypto *relayCrypto
	inc    int             // the SENDME increment of congestion control; zero: fixed windows
	pq     handshake.PQSet // zero: no ML-KEM protects the hop
}

// check refuses CGO without congestion control, at either end, as C tor does:
// relay cells of CGO's layout cannot say which stream a SENDME is for, so fixed
// windows do not work with them.
func (t *terms) check() error {
	if t.crypto.congestion && t.inc == 0 {
		return fault.New(fault.Protocol, "the handshake agrees on CGO but not on congestion control")
	}
	return nil
}

// newHop makes a hop of a finished handshake. Of info it takes what the terms do
// not say. The far end is a relay if this end is the client.
func (c *Circuit) newHop(t terms, info HopInfo, p *flow.Params, path flow.Path) (*Hop, error) {
	h := &Hop{c: c, far: cell.ByClient, makeKeys: t.crypto.relay}
	if info.Client {
		h.far, h.makeKeys = cell.ByRelay, t.crypto.client
	}
	k, err := h.makeKeys(t.keys)
	if err != nil {
		return nil, err
	}
	if info.Onion {
		h.onion = new(onionKEM)
	}
	if info.Client && info.Target == nil {
		info.Target = new(linkspec.Target)
	}
	h.seal, h.open, h.format = k.seal, k.open, k.format
	info.Handshake, info.Layer, info.KH = t.name, t.crypto.name, k.kh
	if t.pq.Valid() {
		info.PQ, info.Carriage = t.pq, handshake.CarriageA
	}
	info.Flow, info.MaxData = p, h.format.MaxData(true)
	if t.inc == 0 {
		info.SendmeInc = flow.CircWindowIncrement
		h.send = flow.NewWindowSender(p)
	} else {
		info.Congestion, info.SendmeInc = true, t.inc
		h.send = flow.NewVegasSender(p, path, t.inc)
	}
	h.recv = *flow.NewReceiver(info.SendmeInc)
	h.info = info
	return h, nil
}
