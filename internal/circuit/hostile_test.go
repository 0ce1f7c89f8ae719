package circuit

import (
	"bytes"
	"crypto/rand"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/protover"
)

// raw opens a circuit with a CREATE2 of the test's own making, and returns what
// comes of it at the relay.
func (r *rig) raw(cmd cell.Command, body []byte) *Circuit {
	r.t.Helper()
	home, err := r.client.Open(new(nextCirc), nil)
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
			off  bool // the relay has no congestion control
			want string
		}{
			"both":                {[]cell.Ext{cell.CCRequest(), cgo}, false, ""},
			"congestion alone":    {[]cell.Ext{cell.CCRequest()}, false, ""},
			"neither":             {nil, false, ""},
			"CGO alone":           {[]cell.Ext{cgo}, false, "CGO but not on congestion control"},
			"both, but one of us": {[]cell.Ext{cell.CCRequest(), cgo}, true, "CGO but not on congestion control"},
		} {
			r.server.cfg.NoCongestion = c.off
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

// TestExtendTargets: whom a relay does not extend to, it does not dial either.
func TestExtendTargets(t *testing.T) {
	onRig(t, func(r *rig) {
		r.far = true
		client := identities()[0].ID // stands in for a relay that the circuit comes from
		next, own := r.next, r.target
		four := linkspec.Spec{Type: linkspec.TypeIPv4, Body: []byte{192, 0, 2, 1, 0, 2}}
		rsa := func(id ident.RSAID) linkspec.Spec { return linkspec.Spec{Type: linkspec.TypeRSA, Body: id[:]} }
		ed := func(id ident.Ed25519ID) linkspec.Spec { return linkspec.Spec{Type: linkspec.TypeEd25519, Body: id[:]} }
		for name, c := range map[string]struct {
			specs []linkspec.Spec
			typ   cell.HandshakeType
			want  string
		}{
			"RSA of zeros":         {[]linkspec.Spec{four, rsa(ident.RSAID{}), ed(next.Ed)}, cell.HandshakeNtorV3, "no RSA identity"},
			"no RSA":               {[]linkspec.Spec{four, ed(next.Ed)}, cell.HandshakeNtorV3, "no RSA identity"},
			"no address":           {[]linkspec.Spec{rsa(next.RSA), ed(next.Ed)}, cell.HandshakeNtorV3, "no address"},
			"itself":               {own.Specs(), cell.HandshakeNtorV3, "this relay itself"},
			"itself by RSA":        {[]linkspec.Spec{four, rsa(own.RSA), ed(next.Ed)}, cell.HandshakeNtorV3, "this relay itself"},
			"itself by Ed25519":    {[]linkspec.Spec{four, rsa(next.RSA), ed(own.Ed)}, cell.HandshakeNtorV3, "this relay itself"},
			"TAP":                  {next.Specs(), cell.HandshakeTAP, "TAP"},
			"CREATE_FAST":          {next.Specs(), cell.HandshakeFast, "create-fast"},
			"the hybrid in a cell": {next.Specs(), handshake.PQ512.Kind().Type, "pq512 does not come in CREATE2"},
			"too many specifiers":  {slices.Repeat([]linkspec.Spec{four}, linkspec.MaxSpecs+1), cell.HandshakeNtorV3, "link specifiers"},
		} {
			c2 := r.circuit(congested, nil)
			if err := c2.Last().SendEarly(cell.RelayExtend2, 0, extend2(c.specs, c.typ, 100)); err != nil {
				t.Fatal(err)
			}
			r.refused(name, r.last(), c.want)
		}
		if len(r.atNext()) != 0 || r.server.cfg.Stats.Extends.Load() != 0 {
			t.Errorf("%d circuits were opened, %d extends begun", len(r.atNext()), r.server.cfg.Stats.Extends.Load())
		}
		// The way back, by either identity.
		r.server.cfg.ID = ident.RelayID{}
		for name, specs := range map[string][]linkspec.Spec{
			"RSA":     {four, rsa(client.RSA), ed(next.Ed)},
			"Ed25519": {four, rsa(next.RSA), ed(client.Ed)},
		} {
			m := cell.Extend2{Specs: linkspec.Append(nil, specs), Type: cell.HandshakeNtorV3}
			if _, err := r.server.target(client, m, cell.FormShort); err == nil || !strings.Contains(err.Error(), "came from") {
				t.Errorf("back by %s: %v", name, err)
			}
		}
	})
}

// TestExtendByDirectory: the directory completes what an EXTEND2 says, and no relay
// is sent a post-quantum cell that it does not advertise to know.
func TestExtendByDirectory(t *testing.T) {
	onRig(t, func(r *rig) {
		listed := r.next
		r.server.cfg.Lookup = func(id ident.RSAID) (linkspec.Target, bool) { return listed, id.Equal(listed.RSA) }
		bare := r.next
		bare.Ed = ident.Ed25519ID{}
		m := cell.Extend2{Specs: linkspec.Append(nil, bare.Specs()), Type: cell.HandshakeNtor}
		if got, err := r.server.target(ident.RelayID{}, m, cell.FormShort); err != nil || got.Ed != listed.Ed {
			t.Errorf("%v, %v", got.Ed, err)
		}
		for protocols, want := range map[string]string{
			"ChivePQ=1-3":   "",
			"ChivePQ=1,3,8": "pq768, which the next relay does not advertise",
			"Relay=2-6":     "pq768, which the next relay does not advertise",
		} {
			var err error
			if listed.Proto, err = protover.Parse(protocols); err != nil {
				t.Fatal(err)
			}
			c := r.circuit(congested, nil)
			r.longExtend(c, 0)
			at := r.last()
			if want != "" {
				r.refused(protocols, at, want)
			} else if at.Err() != nil || len(r.atNext()) != 1 {
				t.Errorf("%s: %v, %d opened", protocols, at.Err(), len(r.atNext()))
			} else {
				c.Close(cell.DestroyNone, nil)
				synctest.Wait()
			}
		}
	})
}

// TestLongMessages: what is carried in long messages has no bytes left over and
// needs a set that this relay advertises; who breaks that loses his circuit, and
// the relay goes on.
func TestLongMessages(t *testing.T) {
	pq768 := handshake.PQ768.Kind().Type
	onRig(t, func(r *rig) {
		for name, body := range map[string][]byte{
			"bytes left over": created(1100, 1000),
			"cut off":         created(1000, 1100),
			"empty":           nil,
			"a byte":          {0},
		} {
			r.answer = func(n *nextCirc) {
				if err := n.circ.SendLong(cell.CmdLongCreated2, body); err != nil {
					t.Error(err)
				}
			}
			c := r.circuit(congested, nil)
			r.longExtend(c, 0)
			r.refused("LONG_CREATED2: "+name, r.last(), "LONG_CREATED2")
		}
		r.answer = func(n *nextCirc) {
			if err := n.circ.SendLong(cell.CmdLongCreated2, created(cell.MaxLong-2, cell.MaxLong-2)); err != nil {
				t.Error(err)
			}
		}
		got := 0
		c := r.circuit(congested, func(h *Hop, m cell.RelayMsg) {
			if m.Cmd == cell.RelayLongExtended2 {
				got += len(m.Data) - 4
			}
		})
		r.longExtend(c, 0)
		if at := r.last(); at.Err() != nil || got != cell.MaxLong {
			t.Errorf("the longest one: %v, %d bytes came", at.Err(), got)
		}
		c.Close(cell.DestroyNone, nil)

		skin := func(n int) []byte {
			m := cell.Create2{Type: pq768, Data: make([]byte, handshake.PQ768.Kind().SkinLen)}
			return append(m.Append(nil), make([]byte, n)...)
		}
		r.refused("LONG_CREATE2 with a byte left over", r.raw(cell.CmdLongCreate2, skin(1)), "1 bytes left over")
		r.refused("LONG_CREATE2, cut", r.raw(cell.CmdLongCreate2, skin(0)[:1000]), "LONG_CREATE2")
		r.server.speaks = parseSpoken([]string{"1,3,8"})
		r.refused("LONG_CREATE2 of another set", r.raw(cell.CmdLongCreate2, skin(0)), "pq768, which this relay does not advertise")
		c = r.circuit(congested, nil)
		r.longExtend(c, 0)
		r.refused("LONG_EXTEND2 of another set", r.last(), "pq768, which this relay does not advertise")
	})
}

// TestSecondExtend: a circuit that was extended keeps nothing of the fragments of
// another EXTEND2.
func TestSecondExtend(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.circuit(congested, nil)
		r.extend(c)
		r.longExtend(c, 1)
		r.refused("fragment", r.first(), "extended already")
		if r.first().Hops()[0].long.fragments.Pending() {
			t.Error("a fragment was kept")
		}
	})
}

// TestUnaskedLongExtended: a client keeps nothing of a LONG_EXTENDED2 that it does
// not wait for.
func TestUnaskedLongExtended(t *testing.T) {
	c := newCircuit(&Env{Now: time.Now}, nil)
	h := &Hop{c: c, info: HopInfo{Client: true}}
	c.addHop(h)
	m := cell.RelayMsg{Cmd: cell.RelayLongExtended2, Data: cut(t, 1000)[0]}
	if err := fromRelay(h, m, cell.CmdRelay); !fault.Is(err, fault.Protocol) || h.long.fragments.Pending() {
		t.Error(err, h.long.fragments.Pending())
	}
}

// TestDialsOfOneLink: extends over one link that wait for dials are bounded; those
// over links that are open are not, and one that has ended makes room.
func TestDialsOfOneLink(t *testing.T) {
	onRig(t, func(r *rig) {
		r.far = true
		truncated := map[cell.DestroyReason]int{}
		var all []*Circuit
		for range maxDialsLink + 3 {
			c := r.circuit(congested, func(_ *Hop, m cell.RelayMsg) {
				if m.Cmd == cell.RelayTruncated {
					truncated[cell.DestroyReason(m.Data[0])]++
				}
			})
			r.extend(c)
			all = append(all, c)
		}
		if r.dials.Load() != maxDialsLink || len(truncated) != 1 || truncated[cell.DestroyResourceLimit] != 3 {
			t.Errorf("%d dials; truncated: %v", r.dials.Load(), truncated)
		}
		r.far = false
		r.extend(r.circuit(congested, nil))
		if len(r.atNext()) != 1 {
			t.Error("an extend over an open link waits for dials")
		}
		r.far = true
		all[0].Close(cell.DestroyNone, nil)
		synctest.Wait()
		r.extend(r.circuit(congested, nil))
		if r.dials.Load() != maxDialsLink {
			t.Errorf("%d dials after one has ended", r.dials.Load())
		}
		time.Sleep(extendTimeout)
		synctest.Wait()
		if r.dials.Load() != 0 || truncated[cell.DestroyConnectFailed] != maxDialsLink-1 {
			t.Errorf("%d dials after %v; truncated: %v", r.dials.Load(), extendTimeout, truncated)
		}
	})
}

// TestDialsOfOneAddress: an address is bounded over all its links, and its failures
// count for a while; other addresses do not feel it, and nothing stays.
func TestDialsOfOneAddress(t *testing.T) {
	var o extendOrigins
	now := time.Unix(1000, 0)
	addr := netaddr.Peer(netip.MustParseAddr("2001:db8:0:1::1"))
	same, other := netaddr.Peer(netip.MustParseAddr("2001:db8:0:1:2::9")), netaddr.Peer(netip.MustParseAddr("192.0.2.7"))
	if addr != same || netaddr.Peer(netip.Addr{}).IsValid() {
		t.Error("what counts as one address")
	}
	links := make([]*channel.Channel, maxDialsAddr+1)
	for i := range links {
		links[i] = new(channel.Channel)
		if ok := o.enter(links[i], addr, now); ok != (i < maxDialsAddr) {
			t.Fatal(i, ok)
		}
	}
	if !o.enter(links[0], other, now) || !o.enter(links[1], netip.Prefix{}, now) {
		t.Error("another address has to wait")
	}
	o.leave(links[0], other, now, false)
	o.leave(links[1], netip.Prefix{}, now, true)
	for _, l := range links[:maxDialsAddr] {
		o.leave(l, addr, now, true)
	}
	if o.enter(links[0], addr, now.Add(extendMemory-1)) {
		t.Error("failures are forgotten at once")
	}
	if !o.enter(links[0], addr, now.Add(extendMemory)) {
		t.Error("failures are not forgotten")
	}
	o.leave(links[0], addr, now.Add(extendMemory), false)
	if len(o.links) != 0 || len(o.addrs) != 0 {
		t.Errorf("%d links and %d addresses are left", len(o.links), len(o.addrs))
	}
	// Addresses that failed once and never come again.
	for i := range 1000 {
		a := netaddr.Peer(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
		at := now.Add(time.Duration(i) * time.Second)
		o.enter(links[0], a, at)
		o.leave(links[0], a, at, true)
	}
	if n := len(o.addrs); n > 100 {
		t.Errorf("%d addresses are left", n)
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
			_, request, err := handshake.RekeyClient(rand.Reader, handshake.PQ512, c.Last().rekey.export, nil)
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
		if err := confluxLink(at.Hops()[0], cell.RelayMsg{Data: body}, cell.CmdRelay); err != nil || len(r.server.sets.m) != 0 {
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
