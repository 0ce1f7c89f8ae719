package hsclient

import (
	"testing"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
)

// TestAhead: an introduction that is made ahead is for the rendezvous point that is there
// or is being made; there is none if that fails.
func TestAhead(t *testing.T) {
	s := newService(t)
	c := newClient(t, &fakeNet{})
	desc := &cached{inner: &netdoc.HSInner{}, blinded: s.blinded, subcredential: s.subcredential}
	p := &s.inner.Points[0]
	there, made := &rendCircuit{circ: endAt{linkspec.Target{}}}, &rendCircuit{circ: endAt{linkspec.Target{}}}
	m := &pendingRend{circ: make(chan *rendCircuit, 1)}
	if d := c.draftAhead(desc, p, there, m); d == nil || d.rend != there || len(d.body) != introduceLen {
		t.Errorf("for a point that is there: %v", d)
	}
	m.circ <- made
	if d := c.draftAhead(desc, p, nil, m); d == nil || d.rend != made {
		t.Errorf("for a point that is being made: %v", d)
	}
	close(m.circ)
	if d := c.draftAhead(desc, p, nil, m); d != nil {
		t.Errorf("without a point: %v", d)
	}
	if d := c.draftAhead(desc, &netdoc.HSIntroPoint{Enc: ident.X25519Key{}}, there, m); d != nil {
		t.Errorf("with a key of small order: %v", d)
	}
	var none *draft
	none.drop()
}

// TestPrepareFails: whoever waits for a rendezvous point that cannot be made is told so.
func TestPrepareFails(t *testing.T) {
	c := newClient(t, &fakeNet{})
	m := c.startRendezvous(t.Context(), false)
	if r := <-m.circ; r != nil {
		t.Error(r)
	}
	if got := <-m.done; got.err != errNoCircuit || got.rend != nil {
		t.Error(got)
	}
}
