package hsclient

import (
	"crypto/rand"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
)

// The lengths of INTRODUCE1, in bytes. The relay that is the introduction point sees the
// length, and so does the service.
const (
	// introduceLen is the length that C tor gives all of its own: it pads to 246 bytes, and
	// then adds the handshake's key and MAC (hs_cell.h). A C tor's never needs more room.
	introduceLen = 246 + handshake.HSIntroOverhead
	// introduceLong is the length of those that do not fit, because they ask for what only
	// Chive's services offer: the longest that every format of relay cells carries.
	introduceLong = 490
)

// draft is an introduction that was not sent yet.
type draft struct {
	rend  *rendCircuit
	hs    *handshake.HSClientState
	terms circuit.VirtualHop
	body  []byte
}

// draft makes an introduction for one introduction point. pow may be nil.
func (c *Client) draft(desc *cached, p *netdoc.HSIntroPoint, rend *rendCircuit, pow *cell.PoW) (*draft, error) {
	hs, err := handshake.HSNtorClient(rand.Reader, handshake.HSService{Enc: p.Enc, Auth: p.Auth, Subcredential: desc.subcredential})
	if err != nil {
		return nil, err
	}
	d := &draft{rend: rend, hs: hs, terms: c.terms(desc)}
	if d.terms.KEM, err = c.encapsulate(desc); err != nil {
		return nil, err
	}
	if d.body, err = introduction(hs, p, rend, &d.terms, pow); err != nil {
		d.drop()
		return nil, err
	}
	return d, nil
}

// draftAhead makes an introduction without a proof of work while a circuit to its introduction
// point is being built: that takes a few crossings of the network, and this some 0.3 ms of a
// processor. It is for rend, or else for the rendezvous point that is being made. It returns nil
// if it fails; then introduce fails in the same way, and says why.
func (c *Client) draftAhead(desc *cached, p *netdoc.HSIntroPoint, rend *rendCircuit, pending *pendingRend) *draft {
	if rend == nil {
		if rend = <-pending.circ; rend == nil {
			return nil
		}
	}
	d, err := c.draft(desc, p, rend, nil)
	if err != nil {
		return nil
	}
	return d
}

// startDraft is draftAhead on a goroutine of its own. The channel receives the draft, which may be
// nil, or is closed.
func (c *Client) startDraft(desc *cached, p *netdoc.HSIntroPoint, rend *rendCircuit, pending *pendingRend) <-chan *draft {
	out := make(chan *draft, 1)
	c.wg.Go(func() {
		defer panics.Recover(c.cfg.Log, nil)
		defer close(out) // after a panic, too
		out <- c.draftAhead(desc, p, rend, pending)
	})
	return out
}

// drop forgets the secrets of a draft that is not sent. d may be nil.
func (d *draft) drop() {
	if d != nil && d.terms.KEM != nil {
		d.terms.KEM.Wipe()
	}
}

// introduction returns the body of an INTRODUCE1.
func introduction(hs *handshake.HSClientState, p *netdoc.HSIntroPoint, rend *rendCircuit, terms *circuit.VirtualHop, pow *cell.PoW) ([]byte, error) {
	at := rend.circ.Last()
	plain := cell.IntroducePlaintext{Cookie: rend.cookie, Onion: at.Ntor, Specs: linkspec.Append(nil, at.Specs())}
	if terms.SendmeInc != 0 {
		plain.Exts = append(plain.Exts, cell.CCRequest())
	}
	if terms.CGO {
		plain.Exts = append(plain.Exts, circuit.RequestCGO())
	}
	if terms.KEM != nil {
		announced := terms.KEM.Announcement()
		plain.Exts = append(plain.Exts, announced.Ext())
	}
	if pow != nil {
		plain.Exts = append(plain.Exts, pow.Ext())
	}
	m := cell.Introduce{AuthKey: p.Auth}
	header := m.AppendHeader(nil)
	text := plain.Append(nil)
	around := len(header) + handshake.HSIntroOverhead
	room := introduceLen - around
	if len(text) > room {
		room = introduceLong - around
	}
	if len(text) > room {
		return nil, fault.New(fault.Local, "onion service: an introduction of %d bytes, not %d", len(text), room)
	}
	text = append(text, make([]byte, room-len(text))...)
	return append(header, hs.Introduce(header, text)...), nil
}
