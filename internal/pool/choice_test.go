package pool

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/path"
)

// TestServes: each single reason for which a circuit that is being built is not for a request, and what is
// none.
func TestServes(t *testing.T) {
	a, b := ident.RSAID{1}, ident.RSAID{2}
	for name, c := range map[string]struct {
		change func(l *launch, r *Request)
		want   bool
	}{
		"nothing":                     {func(*launch, *Request) {}, true},
		"stale":                       {func(l *launch, _ *Request) { l.stale = true }, false},
		"another port":                {func(l *launch, _ *Request) { l.target.port = 80 }, false},
		"somebody's own":              {func(l *launch, _ *Request) { l.private = true }, false},
		"private and unowned":         {func(_ *launch, r *Request) { r.Private = true }, true},
		"private and owned":           {func(l *launch, r *Request) { r.Private, l.owned, l.key = true, true, r.Key }, false},
		"owned by the same":           {func(l *launch, r *Request) { l.owned, l.key = true, r.Key }, true},
		"owned by another":            {func(l *launch, _ *Request) { l.owned, l.key = true, key("b") }, false},
		"was another's":               {func(l *launch, _ *Request) { l.key = key("b") }, true},
		"leads to another":            {func(l *launch, r *Request) { r.Next, l.next = a, b }, false},
		"leads nowhere":               {func(_ *launch, r *Request) { r.Next = a }, false},
		"leads there":                 {func(l *launch, r *Request) { r.Next, l.next = a, a }, true},
		"leads there without need":    {func(l *launch, _ *Request) { l.next = a }, true},
		"may end at what is excluded": {func(l *launch, r *Request) { r.ExcludeExit, l.exclude = []ident.RSAID{a}, []ident.RSAID{b} }, false},
		"excludes the same":           {func(l *launch, r *Request) { r.ExcludeExit, l.exclude = []ident.RSAID{a}, []ident.RSAID{b, a} }, true},
	} {
		r := to(443, key("a"))
		l := &launch{target: r.target()}
		c.change(l, &r)
		if got := l.serves(&waiter{req: r, target: r.target()}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestCovers: a circuit for one target also serves another only if every exit of the one serves the other.
func TestCovers(t *testing.T) {
	name, four, six := target{port: 443}, target{port: 443, four: true}, target{port: 443, six: true}
	stable, internal, long := target{port: 443, stable: true}, target{internal: true, hops: 3}, target{internal: true, hops: 4}
	for _, c := range []struct {
		a, b target
		want bool
	}{
		{name, name, true}, {name, four, false}, {name, six, false}, {four, name, true}, {six, name, true}, {four, four, true}, {six, six, true},
		{four, six, false}, {six, four, false}, {four, target{port: 443, four: true, six: true}, false}, {six, target{port: 443, four: true, six: true}, false},
		{name, target{port: 80}, false}, {four, target{port: 80}, false}, {four, target{port: 80, four: true}, false},
		{stable, name, true}, {name, stable, false}, {stable, stable, true},
		{internal, internal, true}, {internal, long, false}, {internal, name, false}, {name, internal, false}, {stable, internal, false},
		{target{port: 443, country: "de"}, name, false}, {name, target{port: 443, country: "de"}, false},
	} {
		if got := c.a.covers(c.b); got != c.want {
			t.Errorf("%+v for %+v: %v", c.a, c.b, got)
		}
	}
	for r, want := range map[cell.EndReason]bool{cell.EndHibernating: true, cell.EndDestroy: true, cell.EndMisc: false, cell.EndExitPolicy: false} {
		if Leaving(r) != want {
			t.Errorf("reason %d: the exit leaves: %v", r, !want)
		}
	}
}

// TestNewIdentityEndsLaunches: who asks for a new identity ends what is being built for the old one.
func TestNewIdentityEndsLaunches(t *testing.T) {
	run(t, bare(), &fakeBuilder{took: time.Minute}, func(p *Pool) {
		var why error
		b := p.builder.(*fakeBuilder)
		ended := make(chan error, 2)
		p.builder = builderFunc(func(ctx context.Context, s Spec) (PooledCircuit, error) {
			c, err := b.Build(ctx, s)
			ended <- err
			return c, err
		})
		go func() {
			if l, err := p.Acquire(context.Background(), to(443, key("a"))); err == nil {
				l.Release()
			}
		}()
		synctest.Wait()
		p.NewIdentity()
		synctest.Wait()
		select {
		case why = <-ended:
		default:
		}
		if why == nil || !strings.Contains(why.Error(), "new identity") {
			t.Errorf("the launch of the old identity ended with %v", why)
		}
	})
}

type builderFunc func(ctx context.Context, s Spec) (PooledCircuit, error)

func (f builderFunc) Build(ctx context.Context, s Spec) (PooledCircuit, error) { return f(ctx, s) }

// TestSetDirtiness: a circuit that was used for longer than the new bound takes no new stream.
func TestSetDirtiness(t *testing.T) {
	run(t, bare(), &fakeBuilder{}, func(p *Pool) {
		l := acquire(t, p, to(443, key("a")))
		time.Sleep(2 * time.Minute)
		if again := acquire(t, p, to(443, key("a"))); again.Circuit != l.Circuit {
			t.Error("it takes no stream after two minutes")
		}
		p.Set(Live{MaxCircuitDirtiness: time.Minute})
		if again := acquire(t, p, to(443, key("a"))); again.Circuit == l.Circuit {
			t.Error("it takes a stream after the new bound")
		}
		p.Set(Live{})
		if p.cfg.MaxCircuitDirtiness != 10*time.Minute {
			t.Errorf("the default is %v", p.cfg.MaxCircuitDirtiness)
		}
	})
}

// TestRefusalsOfAddresses: an exit that refuses an address may let out others, and so many refusals are
// remembered and no more.
func TestRefusalsOfAddresses(t *testing.T) {
	run(t, bare(), &fakeBuilder{}, func(p *Pool) {
		r := to(443, key("a"))
		r.Dest.Addr = netip.MustParseAddr("192.0.2.1")
		acquire(t, p, r).ExitRefused()
		remembered := func() int {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.refused)
		}
		if n := remembered(); n != 0 {
			t.Errorf("%d refusals of an address are remembered", n)
		}
		p.mu.Lock()
		for port := range maxRefusals - 1 {
			p.refused[refusal{port: uint16(port)}] = time.Now().Add(time.Hour)
		}
		p.mu.Unlock()
		for _, port := range []uint16{5001, 5002} {
			acquire(t, p, to(port, key("a"))).ExitRefused()
		}
		if n := remembered(); n != maxRefusals {
			t.Errorf("%d refusals are remembered", n)
		}
	})
}

// TestHopelessAhead: what no relay serves is not built ahead again, and a request for it does not end that.
func TestHopelessAhead(t *testing.T) {
	for _, owned := range []bool{false, true} {
		run(t, bare(), &fakeBuilder{}, func(p *Pool) {
			p.mu.Lock()
			defer p.mu.Unlock()
			at := target{port: 443}
			p.predicted[at] = time.Now()
			p.noteFailureLocked(&launch{target: at, owned: owned}, path.ErrNone, time.Now())
			if _, there := p.predicted[at]; there != owned {
				t.Errorf("a request waits: %v; it is predicted: %v", owned, there)
			}
		})
	}
}

// TestGaveUpAfterFailures: who gives up hears of the last failure.
func TestGaveUpAfterFailures(t *testing.T) {
	broken := errors.New("broken")
	b := &fakeBuilder{make: func(int, context.Context, Spec) (*fakeCircuit, error) { return nil, broken }}
	run(t, bare(), b, func(p *Pool) {
		ctx, cancel := context.WithTimeout(context.Background(), 150*time.Millisecond)
		defer cancel()
		_, err := p.Acquire(ctx, to(443, key("a")))
		if !errors.Is(err, broken) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// TestStatusCounts: open circuits by their kind.
func TestStatusCounts(t *testing.T) {
	run(t, bare(), &fakeBuilder{}, func(p *Pool) {
		a := acquire(t, p, to(443, key("a")))
		acquire(t, p, to(443, key("b")))
		a.Retire()
		if s := p.Status(); s.Retired != 1 || s.Dirty != 1 || s.Clean != 0 || s.Streams != 2 {
			t.Errorf("%+v", s)
		}
	})
}
