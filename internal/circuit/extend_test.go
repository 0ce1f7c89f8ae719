package circuit

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/protover"
)

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

// TestPaddedWhenExtended: a relay pads a client's link once a circuit on it goes on to another relay, as C tor does, and
// not while all of them end here.
func TestPaddedWhenExtended(t *testing.T) {
	onRig(t, func(r *rig) {
		r.padding, r.stats = channel.NewPadding(channel.DefaultPadding(channel.PadRelay)), new(channel.Stats)
		link, home := r.link(identities()[0], nil, r.accept)
		c := r.circuitOver(link, congested, nil)
		before := r.stats.CellsIn.Load()
		time.Sleep(time.Minute)
		if n := r.stats.CellsIn.Load() - before; n != 0 {
			t.Errorf("%d cells of padding beside a circuit of one hop", n)
		}
		r.extend(c)
		before = r.stats.CellsIn.Load()
		time.Sleep(time.Minute)
		if n := r.stats.CellsIn.Load() - before; n < 5 {
			t.Errorf("%d cells of padding beside a circuit of two hops", n)
		}
		for _, ch := range []*channel.Channel{link, home} {
			ch.Close(fault.New(fault.Closed, "the test is over"))
			<-ch.Done()
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
			r.answer = func(n *nextCircuit) {
				if err := n.circ.SendLong(cell.CmdLongCreated2, body); err != nil {
					t.Error(err)
				}
			}
			c := r.circuit(congested, nil)
			r.longExtend(c, 0)
			r.refused("LONG_CREATED2: "+name, r.last(), "LONG_CREATED2")
		}
		r.answer = func(n *nextCircuit) {
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
	h := &Hop{c: c, info: HopInfo{Client: true, Target: new(linkspec.Target)}}
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
