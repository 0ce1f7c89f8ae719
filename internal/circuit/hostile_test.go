package circuit

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
)

// raw opens a circuit with a CREATE2 of the test's own making, and returns what
// comes of it at the relay.
func (r *rig) raw(cmd cell.Command, body []byte) *Circuit {
	r.t.Helper()
	home, err := r.client.Open(new(nextCircuit), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if cmd == cell.CmdLongCreate2 {
		err = home.SendLong(cmd, body)
	} else {
		err = home.SendControl(cmd, body)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return r.last()
}

// refused checks that a circuit at the relay ended by a violation that err names,
// and nothing of it is left.
func (r *rig) refused(name string, c *Circuit, want string) {
	r.t.Helper()
	synctest.Wait()
	if err := c.Err(); !fault.Is(err, fault.Protocol) || !strings.Contains(err.Error(), want) {
		r.t.Errorf("%s: %v; want %q", name, err, want)
	}
	c.Close(cell.DestroyNone, nil)
	if left := r.left(); len(left) > 0 {
		r.t.Errorf("%s: %v", name, left)
	}
}

// TestCGONeedsCongestion: an onionskin that asks for CGO alone is refused. Its
// relay cells could not say which stream a SENDME is for, so that fifty DATA cells
// on a stream would have brought down the relay.
func TestCGONeedsCongestion(t *testing.T) {
	cgo := cell.SubprotoRequest(cell.Subproto{Protocol: cell.SubprotoRelay, Version: protover.RelayCGO})
	onRig(t, func(r *rig) {
		for name, c := range map[string]struct {
			exts []cell.Ext
			want string
		}{
			"both":             {[]cell.Ext{cell.CCRequest(), cgo}, ""},
			"congestion alone": {[]cell.Ext{cell.CCRequest()}, ""},
			"neither":          {nil, ""},
			"CGO alone":        {[]cell.Ext{cgo}, "CGO but not on congestion control"},
		} {
			_, skin, err := handshake.NtorV3.Start(rand.Reader, &r.target, cell.AppendExts(nil, c.exts))
			if err != nil {
				t.Fatal(err)
			}
			m := cell.Create2{Type: cell.HandshakeNtorV3, Data: skin}
			at := r.raw(cell.CmdCreate2, m.Append(nil))
			if c.want != "" {
				r.refused(name, at, c.want)
				continue
			}
			if at.Err() != nil || len(at.Hops()) != 1 {
				t.Errorf("%s: %v", name, at.Err())
			}
			at.Close(cell.DestroyNone, nil)
		}
	})
}

// TestCGONeedsCongestionClient: a client offers CGO with congestion control only,
// and refuses a relay that takes the one and leaves out the other.
func TestCGONeedsCongestionClient(t *testing.T) {
	proto, err := protover.Parse("Relay=2-6 FlowCtrl=1-2")
	if err != nil {
		t.Fatal(err)
	}
	none := cell.AppendExts(nil, nil)
	both := cell.AppendExts(nil, []cell.Ext{cell.CCResponse(31)})
	for name, c := range map[string]struct {
		o      HopOptions
		cgo    bool // offered
		answer []byte
		ok     bool
	}{
		"both":              {HopOptions{CGO: true, Congestion: true}, true, both, true},
		"CGO, not answered": {HopOptions{CGO: true, Congestion: true}, true, none, false},
		"CGO alone":         {HopOptions{CGO: true}, false, none, true},
		"congestion alone":  {HopOptions{Congestion: true}, false, none, true},
	} {
		hs := &clientHandshake{target: linkspec.Target{Proto: proto}, opts: c.o}
		params := flow.DefaultParams()
		hs.opts.Flow = &params
		hs.request()
		terms := terms{crypto: tor1}
		err := hs.negotiated(c.answer, &terms)
		if hs.cgo != c.cgo || (err == nil) != c.ok || err == nil && (terms.crypto == cgo) != c.cgo || err != nil && !fault.Is(err, fault.Protocol) {
			t.Errorf("%s: offered %v; %d %s %v", name, hs.cgo, terms.inc, terms.crypto.name, err)
		}
	}
}

// TestOneRekey: a second REQUEST before CONFIRM is a violation, although no worker
// has come to the first: a circuit has one job waiting.
func TestOneRekey(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.circuit(congested, nil)
		h := r.first().Hops()[0]
		r.server.pq.close() // no worker comes
		for i := range 2 {
			_, request, err := handshake.RekeyClient(rand.Reader, handshake.PQ512, *c.Last().rekey.export, nil)
			if err != nil {
				t.Fatal(err)
			}
			parts, err := handshake.AppendFragments(nil, request, h.format.MaxData(false))
			if err != nil {
				t.Fatal(err)
			}
			for j, p := range parts {
				if err := rekeyRequest(h, cell.RelayMsg{Cmd: cell.RelayRekeyRequest, Data: p}, cell.CmdRelay); (err == nil) != (i == 0) {
					t.Errorf("request %d, fragment %d: %v", i, j, err)
				}
			}
		}
		if r.server.pq.waiting != 1 {
			t.Errorf("%d jobs wait", r.server.pq.waiting)
		}
	})
}

// TestConfluxEnds: no end of linking leaves a set behind, and none that has closed
// gets a leg.
func TestConfluxEnds(t *testing.T) {
	onRig(t, func(r *rig) {
		m := cell.ConfluxLink{Nonce: [32]byte{1}}
		body := m.Append(nil)
		// The circuit closes before LINKED is sent.
		r.circuit(congested, nil)
		at := r.first()
		at.Close(cell.DestroyNone, fault.New(fault.Closed, "test"))
		err := confluxLink(at.Hops()[0], cell.RelayMsg{Data: body}, cell.CmdRelay)
		synctest.Wait()
		if err != nil || len(r.server.sets.m) != 0 {
			t.Errorf("%v, %d sets", err, len(r.server.sets.m))
		}
		// Another leg closes between the two.
		set, err := r.server.sets.hold(m.Nonce, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		set.closed = true
		c := r.circuit(congested, nil)
		r.askToLink(c)
		if at := r.last(); !fault.Is(at.Err(), fault.Closed) || c.Err() == nil {
			t.Errorf("a leg of a set that has closed lives: %v", at.Err())
		}
		if len(r.server.sets.m) != 1 {
			t.Error("the set went with a leg that it never had")
		}
		r.server.sets.release(m.Nonce)
		// A set has so many legs, and no more.
		var legs []*Circuit
		for range maxLegs {
			c := r.circuit(congested, nil)
			r.linkSet(c)
			legs = append(legs, c)
		}
		c = r.circuit(congested, nil)
		r.askToLink(c)
		if at := r.last(); !fault.Is(at.Err(), fault.Protocol) || legs[0].Err() != nil {
			t.Errorf("a leg too many: %v; the others: %v", at.Err(), legs[0].Err())
		}
		legs[3].Close(cell.DestroyNone, nil)
		synctest.Wait()
		if n := len(r.server.sets.m); n != 1 || legs[4].Err() != nil {
			t.Errorf("an idle leg ended the set: %d sets, %v", n, legs[4].Err())
		}
		xon(t, legs[1].Last().Send, 1) // else the set goes on without the first leg
		legs[0].Close(cell.DestroyNone, nil)
		if left := r.left(); len(left) > 0 {
			t.Error(left)
		}
	})
}

// askToLink is linkSet of a circuit that the relay may refuse.
func (r *rig) askToLink(c *Circuit) {
	r.t.Helper()
	m := cell.ConfluxLink{Nonce: [32]byte{1}}
	if err := c.Last().Send(cell.RelayConfluxLink, 0, m.Append(nil)); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// TestAnswersWait: who asks and does not read has no more answers kept than a
// circuit's queue may hold.
func TestAnswersWait(t *testing.T) {
	onRig(t, func(r *rig) {
		const limit = 60
		r.server.cfg.Env.Queues = NewQueueLimits()
		r.server.cfg.Env.Queues.In.Store(limit)
		reads := make(chan struct{})
		c := r.circuit(congested, func(*Hop, cell.RelayMsg) { <-reads })
		for i := range 20 * limit {
			if err := c.Last().Send(cell.RelayTruncate, 0, []byte{0}); err != nil {
				t.Error(err)
				break
			}
			if i%10 == 0 {
				synctest.Wait()
			}
			if n := r.last().home.Load().Queued(); n > limit+1 {
				t.Errorf("%d cells wait after %d questions", n, i+1)
				break
			}
		}
		synctest.Wait()
		if err := r.last().Err(); !fault.Is(err, fault.Resource) {
			t.Error(err)
		}
		close(reads)
		c.Close(cell.DestroyNone, nil)
		if left := r.left(); len(left) > 0 {
			t.Error(left)
		}
	})
}

// TestUnsendable: what a peer's choice makes impossible to send is an error.
func TestUnsendable(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.circuit(congested, nil)
		for name, send := range map[string]func(*Hop) error{
			"stream SENDME on CGO": func(h *Hop) error { return h.SendStreamSendme(7) },
			"DATA without stream":  func(h *Hop) error { return h.Send(cell.RelayData, 0, nil) },
			"too long":             func(h *Hop) error { return h.Send(cell.RelayExtended2, 0, bytes.Repeat([]byte{1}, 491)) },
			"too long a message":   func(h *Hop) error { return h.sendMeta(cell.RelayLongExtended2, make([]byte, 3000), false) },
			"stream data":          func(h *Hop) error { _, _, err := h.SendData(NewWaiter(), 0, []byte{1}, 1); return err },
		} {
			for _, h := range []*Hop{c.Last(), r.first().Hops()[0]} {
				if err := send(h); !fault.Is(err, fault.Local) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		synctest.Wait()
		if c.Err() != nil || r.first().Err() != nil {
			t.Error(c.Err(), r.first().Err())
		}
	})
}
