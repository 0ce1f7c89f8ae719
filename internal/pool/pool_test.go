package pool

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/path"
)

// run runs a test of a pool on virtual time.
func run(t *testing.T, cfg Config, b *fakeBuilder, f func(p *Pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := New(cfg, b)
		defer p.Close()
		f(p)
	})
}

func TestReuseByIsolation(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	run(t, bare(), b, func(p *Pool) {
		a1, a2, other := acquire(t, p, to(443, key("a"))), acquire(t, p, to(80, key("a"))), acquire(t, p, to(443, key("b")))
		if a1.Circuit != a2.Circuit {
			t.Error("one identity, two circuits")
		}
		if a1.Circuit == other.Circuit {
			t.Error("two identities share a circuit")
		}
		s := p.Status()
		if s.Launched != 2 || s.Streams != 3 || s.Dirty != 2 || s.Reused != 1 {
			t.Errorf("%+v", s)
		}
		for _, l := range []*Lease{a1, a2, other, other} {
			l.Release()
		}
		if s := p.Status(); s.Streams != 0 {
			t.Errorf("%d streams after the last release", s.Streams)
		}
	})
}

func TestConcurrentRequestsShareALaunch(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	run(t, bare(), b, func(p *Pool) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		seen := map[string]map[Circuit]bool{}
		for i := range 100 {
			user := fmt.Sprint(i % 4)
			wg.Go(func() {
				l := acquire(t, p, to(443, key(user)))
				defer l.Release()
				mu.Lock()
				defer mu.Unlock()
				if seen[user] == nil {
					seen[user] = map[Circuit]bool{}
				}
				seen[user][l.Circuit] = true
			})
		}
		wg.Wait()
		all := map[Circuit]bool{}
		for _, cs := range seen {
			for c := range cs {
				all[c] = true
			}
			if len(cs) != 1 {
				t.Errorf("one identity on %d circuits", len(cs))
			}
		}
		if len(all) != 4 || b.launched() != 4 {
			t.Errorf("%d circuits, %d launches for four identities", len(all), b.launched())
		}
	})
}

func TestDirtiness(t *testing.T) {
	b := &fakeBuilder{}
	run(t, bare(), b, func(p *Pool) {
		first := acquire(t, p, to(443, key("a")))
		time.Sleep(9 * time.Minute)
		if l := acquire(t, p, to(443, key("a"))); l.Circuit != first.Circuit {
			t.Error("a new circuit after nine minutes")
		} else {
			l.Release()
		}
		time.Sleep(time.Minute)
		l := acquire(t, p, to(443, key("a")))
		if l.Circuit == first.Circuit {
			t.Error("a circuit took a stream after MaxDirtiness")
		}
		c := first.Circuit.(*fakeCircuit)
		if c.closed() {
			t.Error("closed with a stream on it")
		}
		first.Release()
		synctest.Wait()
		if !c.closed() {
			t.Error("not closed with its last stream")
		}
		l.Release()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s := p.Status(); s.Dirty+s.Clean+s.Retired != 0 {
			t.Errorf("left after their time: %+v", s)
		}
	})
}

func TestPrediction(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	run(t, Config{InitialPorts: []uint16{443}}, b, func(p *Pool) {
		time.Sleep(2 * time.Second)
		if s := p.Status(); s.Clean != 2 || s.Preemptive != 2 {
			t.Fatalf("at first: %+v", s)
		}
		start := time.Now()
		l := acquire(t, p, to(443, key("a")))
		if time.Since(start) != 0 {
			t.Error("a predicted request had to wait")
		}
		time.Sleep(2 * time.Second)
		if s := p.Status(); s.Clean != 2 || s.Dirty != 1 {
			t.Errorf("not filled up: %+v", s)
		}
		l.Release()
		// An identity has a circuit; another takes a clean one.
		acquire(t, p, to(443, key("b"))).Release()
		time.Sleep(58 * time.Minute)
		if s := p.Status(); s.Clean != 2 {
			t.Errorf("an hour is not over: %+v", s)
		}
		time.Sleep(40 * time.Minute)
		synctest.Wait()
		if s := p.Status(); s.Clean+s.Launching != 0 {
			t.Errorf("still predicted after an hour without use: %+v", s)
		}
	})
}

func TestPredictionLearnsPorts(t *testing.T) {
	b := &fakeBuilder{make: func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		c := circuit(n, s)
		if s.Dests[0].Port == 443 {
			c.ports = []uint16{80, 443}
		} else {
			c.ports = []uint16{s.Dests[0].Port}
		}
		return c, nil
	}}
	run(t, Config{InitialPorts: []uint16{80, 443}}, b, func(p *Pool) {
		synctest.Wait()
		// 443's circuits are good for 80 as well, whichever came first.
		if s := p.Status(); s.Clean > 4 {
			t.Errorf("%+v", s)
		}
		acquire(t, p, to(22, key("a"))).Release()
		synctest.Wait()
		n := 0
		for _, c := range b.circuits {
			if c.Allows(path.Dest{Port: 22}) && !c.closed() {
				n++
				if !c.stable {
					t.Error("port 22 needs Stable relays")
				}
			}
		}
		if n != 3 { // the one in use and two clean ones
			t.Errorf("%d circuits for port 22", n)
		}
	})
}

func TestMaxClean(t *testing.T) {
	b := &fakeBuilder{make: func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		c := circuit(n, s)
		c.ports = []uint16{s.Dests[0].Port}
		return c, nil
	}}
	var ports []uint16
	for i := range uint16(200) {
		ports = append(ports, 1000+i)
	}
	run(t, Config{InitialPorts: ports, MaxClean: 12}, b, func(p *Pool) {
		synctest.Wait()
		if s := p.Status(); s.Clean != 12 || s.Launched != 12 {
			t.Errorf("%+v", s)
		}
		for i := range uint16(200) {
			acquire(t, p, to(2000+i, key("a"))).Release()
		}
		synctest.Wait()
		if len(p.predicted) > maxPredicted+len(ports) {
			t.Errorf("%d ports are predicted", len(p.predicted))
		}
	})
}

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
		p.forget(time.Now())
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

func TestMaxStreams(t *testing.T) {
	cfg := bare()
	cfg.MaxStreams = 3
	b := &fakeBuilder{}
	run(t, cfg, b, func(p *Pool) {
		count := map[Circuit]int{}
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

func TestRetire(t *testing.T) {
	b := &fakeBuilder{}
	run(t, bare(), b, func(p *Pool) {
		l := acquire(t, p, to(443, key("a")))
		l.Retire()
		if n := acquire(t, p, to(443, key("a"))); n.Circuit == l.Circuit {
			t.Error("a retired circuit took a stream")
		}
		if l.Circuit.(*fakeCircuit).closed() {
			t.Error("closed under its stream")
		}
		l.Release()
		synctest.Wait()
		if !l.Circuit.(*fakeCircuit).closed() {
			t.Error("not closed when its stream ended")
		}
	})
}

func TestNewIdentity(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	run(t, Config{InitialPorts: []uint16{443}}, b, func(p *Pool) {
		l := acquire(t, p, to(443, key("a")))
		time.Sleep(2 * time.Second)
		old := b.launched()
		got := make(chan *Lease)
		go func() { got <- acquire(t, p, to(25, key("other"))) }()
		b.mu.Lock()
		clean := append([]*fakeCircuit(nil), b.circuits...)
		b.mu.Unlock()
		p.NewIdentity()
		n := acquire(t, p, to(443, key("a")))
		for _, c := range clean {
			if n.Circuit == Circuit(c) {
				t.Error("a circuit of the old identity was used")
			}
			if Circuit(c) != l.Circuit && !c.closed() {
				t.Error("a clean circuit outlived its identity")
			}
		}
		if l.Circuit.(*fakeCircuit).closed() {
			t.Error("an open stream was cut off")
		}
		w := <-got
		if b.launched() <= old || w.Circuit.(*fakeCircuit).closed() {
			t.Error("a request that waited got an old circuit")
		}
	})
}

func TestDeadCircuitIsReplaced(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	run(t, Config{InitialPorts: []uint16{443}}, b, func(p *Pool) {
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for _, c := range b.circuits {
			c.Close()
		}
		l := acquire(t, p, to(443, key("a"))) // at once, before anybody noticed
		if l.Circuit.(*fakeCircuit).closed() {
			t.Error("a dead circuit was handed out")
		}
		time.Sleep(2 * time.Second)
		if s := p.Status(); s.Clean != 2 {
			t.Errorf("not filled up: %+v", s)
		}
	})
}

func TestFailuresRetryWithAnotherPath(t *testing.T) {
	bad := ident.RSAID{7}
	b := &fakeBuilder{make: func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		if n < 3 {
			return nil, &HopError{bad, fault.New(fault.Timeout, "hop 2 is silent")}
		}
		return circuit(n, s), nil
	}}
	run(t, bare(), b, func(p *Pool) {
		start := time.Now()
		acquire(t, p, to(443, key("a")))
		// Pauses: none, 100 ms, 200 ms.
		if d := time.Since(start); d != 300*time.Millisecond {
			t.Errorf("after %v", d)
		}
		if got := b.specs[1].Exclude; len(got) != 1 || got[0] != bad {
			t.Error("the next path did not go around the relay that failed")
		}
		if s := p.Status(); s.Failures != 0 || s.Failed != 3 || s.Built != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestGivesUp(t *testing.T) {
	cause := fault.New(fault.Network, "no way")
	b := &fakeBuilder{make: func(int, context.Context, Spec) (*fakeCircuit, error) { return nil, cause }}
	run(t, bare(), b, func(p *Pool) {
		_, err := p.Acquire(context.Background(), to(443, key("a")))
		if !errors.Is(err, cause) || !fault.Is(err, fault.Network) || b.launched() != 8 {
			t.Errorf("after %d launches: %v", b.launched(), err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err = p.Acquire(ctx, to(443, key("a")))
		if !errors.Is(err, context.DeadlineExceeded) || !fault.Is(err, fault.Timeout) {
			t.Errorf("at the deadline: %v", err)
		}
		p.Retry()
		if s := p.Status(); s.Failures != 0 {
			t.Error("the past is not forgotten")
		}
	})
}

func TestHopelessRequestsFailAtOnce(t *testing.T) {
	b := &fakeBuilder{make: func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		if s.Dests[0].Port == 25 {
			return nil, fmt.Errorf("%w exit for port 25", path.ErrNone)
		}
		c := circuit(n, s)
		c.ports = []uint16{443}
		return c, nil
	}}
	run(t, Config{InitialPorts: []uint16{25, 443}}, b, func(p *Pool) {
		_, err := p.Acquire(context.Background(), to(25, key("a")))
		if !errors.Is(err, path.ErrNone) {
			t.Error(err)
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if n := b.launched(); n > 10 {
			t.Errorf("%d launches: what cannot be had is tried for ever", n)
		}
		if s := p.Status(); s.Failures != 0 || s.Clean != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestOnlyRelayFailedOnce(t *testing.T) {
	b := &fakeBuilder{make: func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		switch {
		case n == 0:
			return nil, &HopError{ident.RSAID{7}, errors.New("hop 2 failed")}
		case len(s.Exclude) > 0:
			return nil, fmt.Errorf("%w middle relay", path.ErrNone)
		}
		return circuit(n, s), nil
	}}
	run(t, bare(), b, func(p *Pool) {
		acquire(t, p, to(443, key("a")))
		if b.launched() != 3 {
			t.Errorf("%d launches", b.launched())
		}
	})
}

func TestSlowPreemptiveLaunchIsNotHedged(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	b.make = func(n int, _ context.Context, s Spec) (*fakeCircuit, error) { s.Slow(); return circuit(n, s), nil }
	run(t, Config{InitialPorts: []uint16{443}}, b, func(p *Pool) {
		time.Sleep(time.Minute)
		if b.launched() != 2 {
			t.Errorf("%d launches", b.launched())
		}
	})
}

func TestRequestJoinsAPreemptiveLaunch(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	run(t, Config{InitialPorts: []uint16{443}}, b, func(p *Pool) {
		time.Sleep(500 * time.Millisecond)
		start := time.Now()
		a, c := acquire(t, p, to(443, key("a"))), acquire(t, p, to(443, key("b")))
		if time.Since(start) != 500*time.Millisecond || a.Circuit == c.Circuit {
			t.Errorf("after %v", time.Since(start))
		}
	})
}

func TestBoundedLaunches(t *testing.T) {
	cfg := bare()
	cfg.MaxPending = 4
	b := &fakeBuilder{took: time.Second}
	run(t, cfg, b, func(p *Pool) {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() { acquire(t, p, to(443, key(fmt.Sprint(i)))) })
		}
		for range 5 {
			synctest.Wait()
			if s := p.Status(); s.Launching != 4 {
				t.Errorf("%d launches at once", s.Launching)
			}
			time.Sleep(time.Second)
		}
		wg.Wait()
		if b.launched() != 20 {
			t.Errorf("%d launches", b.launched())
		}
	})
}

func TestCancelledRequestLeavesASpare(t *testing.T) {
	b := &fakeBuilder{took: 2 * time.Second}
	run(t, bare(), b, func(p *Pool) {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Second, cancel)
		_, err := p.Acquire(ctx, to(443, key("a")))
		if !errors.Is(err, context.Canceled) || !fault.Is(err, fault.Closed) {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if s := p.Status(); s.Clean != 1 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
		if l := acquire(t, p, to(443, key("b"))); b.launched() != 1 || l == nil {
			t.Error("the spare circuit was not used")
		}
		if _, err := p.Acquire(ctx, to(443, key("a"))); !errors.Is(err, context.Canceled) {
			t.Errorf("with a dead context: %v", err)
		}
	})
}

func TestCleanCircuitsExpire(t *testing.T) {
	b := &fakeBuilder{took: 2 * time.Second}
	run(t, bare(), b, func(p *Pool) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := p.Acquire(ctx, to(443, key("a"))); err == nil {
			t.Fatal("too fast")
		}
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if s := p.Status(); s.Clean != 1 {
			t.Errorf("%+v", s)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := p.Status(); s.Clean != 0 || !b.circuits[0].closed() {
			t.Errorf("%+v", s)
		}
	})
}

func TestNetworkDown(t *testing.T) {
	var up atomic.Bool
	b := &fakeBuilder{}
	b.make = func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		if !up.Load() {
			return nil, errors.New("network is unreachable")
		}
		return circuit(n, s), nil
	}
	run(t, Config{}, b, func(p *Pool) {
		time.Sleep(30 * time.Minute)
		if n := b.launched(); n < 25 || n > 60 {
			t.Errorf("%d launches in half an hour without a network", n)
		}
		up.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := p.Status(); s.Clean != 2 {
			t.Errorf("the network is back: %+v", s)
		}
	})
}

func TestLearning(t *testing.T) {
	b := &fakeBuilder{}
	cfg := bare()
	asked := 0
	cfg.Learn = func(open int) bool { asked++; return open < 3 }
	run(t, cfg, b, func(p *Pool) {
		time.Sleep(time.Minute)
		if s := p.Status(); s.Clean != 3 || asked < 6 {
			t.Errorf("asked %d times: %+v", asked, s)
		}
	})
}

func TestClose(t *testing.T) {
	b := &fakeBuilder{took: time.Hour}
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{}, b)
		got := make(chan error)
		go func() {
			_, err := p.Acquire(context.Background(), to(443, key("a")))
			got <- err
		}()
		time.Sleep(time.Second)
		p.Close()
		p.Close()
		if err := <-got; !fault.Is(err, fault.Closed) {
			t.Error(err)
		}
		if _, err := p.Acquire(context.Background(), to(443, key("a"))); !fault.Is(err, fault.Closed) {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBuilder{}
		p := New(Config{}, b)
		l := acquire(t, p, to(443, key("a")))
		p.Close()
		if !l.Circuit.(*fakeCircuit).closed() {
			t.Error("a circuit outlived the pool")
		}
		l.Release()
	})
}

func TestRetryable(t *testing.T) {
	for r, want := range map[cell.EndReason]bool{
		cell.EndExitPolicy: true, cell.EndResolveFailed: true, cell.EndMisc: true, cell.EndNoRoute: true,
		cell.EndHibernating: true, cell.EndResourceLimit: true, cell.EndDestroy: true,
		cell.EndConnectRefused: false, cell.EndDone: false, cell.EndTimeout: false, cell.EndConnReset: false,
		cell.EndTorProtocol: false, cell.EndInternal: false, cell.EndNotDirectory: false,
	} {
		if Retryable(r) != want {
			t.Errorf("%v: %v", r, !want)
		}
	}
}

func TestKeys(t *testing.T) {
	base := Origin{Listener: "l", Protocol: "socks5", Client: netip.MustParseAddr("127.0.0.1"), User: "u", Pass: "p", DestHost: "h", DestPort: 1}
	for name, v := range map[string]struct {
		by     Isolate
		change func(*Origin)
	}{
		"user":     {ByAuth, func(o *Origin) { o.User = "x" }},
		"password": {ByAuth, func(o *Origin) { o.Pass = "x" }},
		"client":   {ByClientAddr, func(o *Origin) { o.Client = netip.MustParseAddr("127.0.0.2") }},
		"host":     {ByDestAddr, func(o *Origin) { o.DestHost = "x" }},
		"port":     {ByDestPort, func(o *Origin) { o.DestPort = 2 }},
		"protocol": {ByProtocol, func(o *Origin) { o.Protocol = "http" }},
	} {
		o := base
		v.change(&o)
		if v.by.Key(base) == v.by.Key(o) {
			t.Errorf("%s: not isolated", name)
		}
		if others := ^v.by & 31; others.Key(base) != others.Key(o) {
			t.Errorf("%s: isolated by something else", name)
		}
	}
	for name, change := range map[string]func(*Origin){
		"listener": func(o *Origin) { o.Listener = "x" }, "token": func(o *Origin) { o.Token = 1 },
	} {
		o := base
		change(&o)
		if Isolate(0).Key(base) == Isolate(0).Key(o) {
			t.Errorf("%s: not isolated", name)
		}
	}
	o := base
	o.Client = netip.MustParseAddr("::ffff:127.0.0.1")
	if DefaultIsolate.Key(base) != DefaultIsolate.Key(o) {
		t.Error("one address in two forms")
	}
	if s := fmt.Sprintf("%v %s", DefaultIsolate.Key(base), DefaultIsolate.Key(base).LogValue()); s != "[scrubbed] [scrubbed]" {
		t.Errorf("printed %q", s)
	}
	if ByAuth.Key(base) == DefaultIsolate.Key(base) {
		t.Error("different rules share")
	}
}
