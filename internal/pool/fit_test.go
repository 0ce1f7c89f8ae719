package pool

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/path"
)

func TestExitPolicyAndExclusion(t *testing.T) {
	b := &fakeBuilder{make: func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		c := circuit(n, s)
		c.ports = []uint16{s.Dests[0].Port}
		return c, nil
	}}
	run(t, bare(), b, func(p *Pool) {
		web, mail := acquire(t, p, to(443, key("a"))), acquire(t, p, to(25, key("a")))
		if web.Circuit == mail.Circuit {
			t.Error("an exit that refuses port 25 was asked for it")
		}
		r := to(443, key("a"))
		r.ExcludeExit = []ident.RSAID{web.Circuit.Exit()}
		again := acquire(t, p, r)
		if again.Circuit.Exit() == web.Circuit.Exit() {
			t.Error("the exit that failed was taken again")
		}
		if got := b.specs[2].ExcludeExit; len(got) != 1 || got[0] != web.Circuit.Exit() {
			t.Error("the builder was not told which exit failed")
		}
	})
}

func TestExitRefused(t *testing.T) {
	b := &fakeBuilder{}
	run(t, bare(), b, func(p *Pool) {
		l := acquire(t, p, to(443, key("a")))
		l.ExitRefused()
		if n := acquire(t, p, to(443, key("a"))); n.Circuit == l.Circuit {
			t.Error("an exit that refused the port was asked again")
		}
		if got := b.specs[1].ExcludeExit; len(got) != 1 || got[0] != l.Circuit.Exit() {
			t.Error("the builder was not told")
		}
		if n := acquire(t, p, to(80, key("a"))); n.Circuit.Exit() != l.Circuit.Exit() && b.launched() > 2 {
			t.Error("another port is not refused")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		p.forgetLocked(time.Now())
		if len(p.refused) != 0 {
			t.Error("remembered for ever")
		}
	})
}

func TestStableAndFamilies(t *testing.T) {
	b := &fakeBuilder{}
	run(t, bare(), b, func(p *Pool) {
		acquire(t, p, to(443, key("a")))
		acquire(t, p, to(6667, key("a")))
		if b.launched() != 2 || !b.specs[1].Stable {
			t.Error("a long-lived port needs a circuit of Stable relays")
		}
		r := to(443, key("b"))
		r.Dest.Addr = netip.MustParseAddr("2001:db8::1")
		acquire(t, p, r)
		if d := b.specs[2].Dests[0]; d.Addr != netip.IPv6Unspecified() || d.Port != 443 {
			t.Errorf("asked the builder for %v: the address itself is nobody's business", d)
		}
	})
}

func TestInternalAndPrivate(t *testing.T) {
	b := &fakeBuilder{}
	run(t, bare(), b, func(p *Pool) {
		r := Request{Internal: true, Private: true, Stable: true, Key: key("a")}
		one, two := acquire(t, p, r), acquire(t, p, r)
		if one.Circuit == two.Circuit {
			t.Error("a private circuit was given twice")
		}
		if len(b.specs[0].Dests) != 0 || !b.specs[0].Stable {
			t.Errorf("%+v", b.specs[0])
		}
		r.Private = false
		if l := acquire(t, p, r); l.Circuit == one.Circuit || l.Circuit == two.Circuit {
			t.Error("a private circuit was shared")
		}
		acquire(t, p, to(443, key("a")))
		if b.launched() != 4 {
			t.Error("an internal circuit for an exit stream")
		}
		one.Release()
		synctest.Wait()
		if !one.Circuit.(*fakeCircuit).closed() {
			t.Error("a private circuit outlived its owner")
		}
	})
}

// TestInternalExcludeExit: an internal circuit does not end where the request says
// that it must not.
func TestInternalExcludeExit(t *testing.T) {
	b := &fakeBuilder{}
	run(t, bare(), b, func(p *Pool) {
		r := Request{Internal: true, Key: key("a")}
		one := acquire(t, p, r)
		if acquire(t, p, r).Circuit != one.Circuit {
			t.Error("an internal circuit was not shared")
		}
		r.ExcludeExit = []ident.RSAID{one.Circuit.Exit()}
		if acquire(t, p, r).Circuit == one.Circuit || len(b.specs[1].ExcludeExit) != 1 {
			t.Error("it ends at the relay to avoid")
		}
	})
}

// TestInternalLeads: an internal circuit has the length that is asked for, and can be
// extended to the relay that follows.
func TestInternalLeads(t *testing.T) {
	b := &fakeBuilder{}
	run(t, bare(), b, func(p *Pool) {
		r := Request{Internal: true, Private: true, Key: key("a")}
		one := acquire(t, p, r).Circuit.(*fakeCircuit)
		r.Hops = 4
		two := acquire(t, p, r)
		if two.Circuit == PooledCircuit(one) || b.specs[0].Hops != path.DefaultHops || b.specs[1].Hops != 4 {
			t.Error("lengths:", b.specs[0].Hops, b.specs[1].Hops)
		}
		r.Private = false
		three := acquire(t, p, r).Circuit.(*fakeCircuit)
		if r.Next = three.exit; acquire(t, p, r).Circuit == PooledCircuit(three) {
			t.Error("it ends there")
		}
		if got := b.specs[len(b.specs)-1]; got.Next != r.Next || got.Hops != 4 {
			t.Error("the builder was not told:", got.Next)
		}
		three.before = ident.RSAID{9}
		if r.Next = three.before; acquire(t, p, r).Circuit == PooledCircuit(three) {
			t.Error("it would turn back")
		}
	})
}

func TestMaxStreams(t *testing.T) {
	cfg := bare()
	cfg.MaxStreams = 3
	b := &fakeBuilder{}
	run(t, cfg, b, func(p *Pool) {
		count := map[PooledCircuit]int{}
		for range 7 {
			count[acquire(t, p, to(443, key("a"))).Circuit]++
		}
		if len(count) != 3 {
			t.Errorf("%d circuits for seven streams", len(count))
		}
		for _, n := range count {
			if n > 3 {
				t.Errorf("%d streams on one circuit", n)
			}
		}
	})
}
