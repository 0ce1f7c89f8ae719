package client

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// lag is a connection on which all arrives a while after it was sent.
type lag struct {
	net.Conn
	come chan arrival
	rest []byte
}

type arrival struct {
	data []byte
	at   time.Time
	err  error
}

func newLag(conn net.Conn, by *atomic.Int64) *lag {
	l := &lag{Conn: conn, come: make(chan arrival, 1000)}
	go func() {
		for {
			b := make([]byte, 4096)
			n, err := conn.Read(b)
			l.come <- arrival{b[:n], time.Now().Add(time.Duration(by.Load())), err}
			if err != nil {
				close(l.come)
				return
			}
		}
	}()
	return l
}

func (l *lag) Read(b []byte) (int, error) {
	if len(l.rest) == 0 {
		a, ok := <-l.come
		if !ok {
			return 0, net.ErrClosed
		}
		if a.err != nil {
			return 0, a.err
		}
		time.Sleep(time.Until(a.at))
		l.rest = a.data
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// laggard is a client, in virtual time, whose guard answers as late as the test says. Its circuits lead over three relays to an
// exit for web pages.
type laggard struct {
	*Client
	lag    atomic.Int64 // the longest of a hop is twice that
	begun  atomic.Int64 // circuits that the guard has seen
	relays []linkspec.Target
	open   netdir.Relay
	exit   askedExit
}

func (l *laggard) slow(by time.Duration) { l.lag.Store(int64(by)) }

// newLaggard returns a client that has learned times of about a second, if it knows them.
func newLaggard(t *testing.T, open netdir.Relay, knows, fast bool) *laggard {
	t.Helper()
	l := &laggard{open: open}
	n := simnet.NewNetwork()
	for i := range 3 {
		o := simnet.Options{Network: n, Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 9001)}
		if i == 0 {
			o.Accepted = func(c *channel.CircuitEnd) { l.begun.Add(1) }
		}
		if i == 2 {
			o.Streams = &l.exit
		}
		l.relays = append(l.relays, simnet.New(t, o).Target)
	}
	dial := n.Dialer(netip.MustParseAddr("10.0.0.9"))
	network := *netdir.Public()
	network.Testing.AllowPrivateAddresses = true
	var err error
	l.Client, err = New(Config{Network: &network, Fast: fast, Dial: func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		if addr != l.relays[0].Addrs[0] {
			return refuse(ctx, addr) // a directory
		}
		conn, err := dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		return newLag(conn, &l.lag), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	g := l.relays[0]
	l.guards.SetBridges([]guard.Candidate{{ID: g.RelayID, Addrs: g.Addrs, Complete: true, Bridge: true, Ntor: g.Ntor}}, time.Now())
	for i := range 100 {
		if now := time.Now(); knows {
			l.times.use(func(e *cbt.Estimator) {
				e.HopBuilt(3, 3, now.Add(-time.Second-time.Duration(i)*time.Millisecond), now, false)
			})
		}
	}
	return l
}

func (l *laggard) path() (*path.Path, error) {
	use, err := l.guards.PickBridge(l.relays[0].RSA, time.Now())
	return &path.Path{Guard: use, Hops: []path.Hop{{Target: l.relays[0]}, {Target: l.relays[1]}, {Target: l.relays[2], Relay: l.open}}}, err
}

// Build implements pool.Builder.
func (l *laggard) Build(ctx context.Context, spec pool.Spec) (pool.PooledCircuit, error) {
	circ, err := l.build(ctx, spec)
	if err != nil {
		return nil, err
	}
	return circ, nil
}

func (l *laggard) build(ctx context.Context, spec pool.Spec) (*OpenCircuit, error) {
	p, err := l.path()
	if err != nil {
		return nil, err
	}
	return l.buildOver(ctx, p, &spec, order{id: l.ids.Add(1), purpose: purposeOf(&spec)})
}

func (l *laggard) known() (s cbt.Status) {
	l.times.use(func(e *cbt.Estimator) { s = e.Status() })
	return s
}

// anExit returns an exit for web pages.
func anExit(t *testing.T) netdir.Relay {
	t.Helper()
	made, err := dirgen.New(dirgen.Options{Relays: 60, ValidAfter: time.Now().Add(-time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	for r := range d.All() {
		if path.Allows(r, path.Dest{Port: 443}) {
			return r
		}
	}
	t.Fatal("there is no exit")
	return netdir.Relay{}
}

// virtually runs a test in virtual time.
func virtually(t *testing.T, knows bool, f func(t *testing.T, l *laggard)) {
	t.Helper()
	virtuallyAs(t, knows, false, f)
}

func virtuallyAs(t *testing.T, knows, fast bool, f func(t *testing.T, l *laggard)) {
	t.Helper()
	open := anExit(t)
	synctest.Test(t, func(t *testing.T) { f(t, newLaggard(t, open, knows, fast)) })
}

// TestLateCircuit: while another circuit is open, one that takes longer than most is not used: who asked hears so when the client
// looks, once a second, or when a hop comes too late. Its time is measured all the same, and for its guard it is built.
func TestLateCircuit(t *testing.T) {
	for what, looks := range map[string]bool{"the client looks": true, "a hop comes": false} {
		t.Run(what, func(t *testing.T) {
			virtually(t, true, func(t *testing.T, l *laggard) {
				first, err := l.build(t.Context(), pool.Spec{})
				if err != nil {
					t.Fatal(err)
				}
				defer first.Close()
				l.lookForLate(time.Now())
				before := l.known()
				l.slow(600 * time.Millisecond)
				var told atomic.Int64
				asker, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				began := time.Now()
				go func() {
					defer cancel() // as the pool does
					_, err := l.build(asker, pool.Spec{Late: func() { told.Add(1) }})
					done <- err
				}()
				time.Sleep(before.Usage - time.Millisecond)
				l.lookForLate(time.Now())
				synctest.Wait()
				if told.Load() > 0 {
					t.Fatal("late before its time")
				}
				time.Sleep(2 * time.Millisecond)
				if looks {
					l.lookForLate(time.Now())
					l.lookForLate(time.Now())
				}
				synctest.Wait()
				if n := told.Load(); n > 1 || looks != (n == 1) {
					t.Errorf("told %d times", n)
				}
				if err := <-done; !errors.Is(err, pool.ErrLate) || told.Load() != 1 {
					t.Errorf("told %d times, and then: %v", told.Load(), err)
				}
				if now := l.known(); now.Timeouts != before.Timeouts+1 {
					t.Errorf("%d timeouts are counted", now.Timeouts-before.Timeouts)
				}
				time.Sleep(10 * time.Second)
				if now := l.known(); now.Observations != before.Observations+1 || l.circs.count() != 1 || l.making.Load() != 0 {
					t.Errorf("%d times are measured, %d circuits are open (%v after it began)", now.Observations-before.Observations, l.circs.count(), time.Since(began))
				}
				first.Close()
				synctest.Wait()
				if g := l.guards.Status(time.Now()).Guards; len(g) != 1 || g[0].Attempts != 2 || g[0].Circuits != 2 {
					t.Errorf("the guard: %+v", g)
				}
			})
		})
	}
}

// TestRelaxed: while no circuit is open, one that takes longer than most is used. It counts as one that takes long, but as one that
// was built, too.
func TestRelaxed(t *testing.T) {
	virtually(t, true, func(t *testing.T, l *laggard) {
		l.slow(600 * time.Millisecond)
		before := l.known()
		go func() {
			for range 200 {
				time.Sleep(99 * time.Millisecond)
				l.lookForLate(time.Now())
			}
		}()
		circ, err := l.build(t.Context(), pool.Spec{Late: func() { t.Error("it is late") }})
		if err != nil {
			t.Fatal(err)
		}
		defer circ.Close()
		if now := l.known(); now.Timeouts != before.Timeouts+1 || now.Observations != before.Observations+1 {
			t.Errorf("%+v", now)
		}
		time.Sleep(20 * time.Second)
	})
}

// TestLateEnds: a circuit that is late, and that the guard does not answer for, is given up in the end, and ends with the client.
func TestLateEnds(t *testing.T) {
	for _, closes := range []bool{false, true} {
		virtually(t, true, func(t *testing.T, l *laggard) {
			first, err := l.build(t.Context(), pool.Spec{})
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close()
			l.lookForLate(time.Now())
			l.slow(time.Hour)
			done := make(chan error, 1)
			go func() {
				_, err := l.build(t.Context(), pool.Spec{})
				done <- err
			}()
			time.Sleep(5 * time.Second)
			l.lookForLate(time.Now())
			if err := <-done; !errors.Is(err, pool.ErrLate) {
				t.Error(err)
			}
			under := func() int { return len(l.underway.second(true)) }
			if synctest.Wait(); under() != 1 {
				t.Error("it is not measured")
			}
			if closes {
				return // Close waits for it
			}
			time.Sleep(50 * time.Second)
			if under() != 1 {
				t.Error("it is given up before its time")
			}
			time.Sleep(10 * time.Second)
			if under() != 0 {
				t.Error("it is measured for ever")
			}
			l.slow(0)
		})
	}
}

// TestNotLateBeforeTheLink: how long a link takes to open makes no circuit late.
func TestNotLateBeforeTheLink(t *testing.T) {
	virtually(t, true, func(t *testing.T, l *laggard) {
		l.underway.second(true)
		l.slow(2 * time.Second)
		p, err := l.path()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := l.buildOver(t.Context(), p, &pool.Spec{}, order{id: l.ids.Add(1)})
			t.Log(err)
		}()
		time.Sleep(3 * time.Second) // the handshake has several steps
		for _, b := range l.underway.second(true) {
			b.look(time.Now(), true)
			if _, asked := b.progress(); b.isTooLate() || !asked.IsZero() {
				t.Error("the link is open, or the circuit late")
			}
		}
		l.slow(0)
		time.Sleep(5 * time.Second)
	})
}

// TestTenTimesSlower: a client whose network is ten times slower than it was still gets circuits: it soon learns that all take long.
func TestTenTimesSlower(t *testing.T) {
	virtually(t, true, func(t *testing.T, l *laggard) {
		first, err := l.build(t.Context(), pool.Spec{Spec: path.Spec{Dests: []path.Dest{{Port: 443}}}})
		if err != nil {
			t.Fatal(err)
		}
		defer first.Close()
		l.slow(3 * time.Second)
		common := l.common()
		common.Sets, common.Learning = func() (int, int) { return 0, 0 }, func() time.Duration { return time.Hour }
		p := pool.New(pool.Config{Common: common}, l)
		defer p.Close()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		lease, err := p.Acquire(ctx, pool.Request{Dest: path.Dest{Port: 443}})
		if err != nil {
			t.Fatalf("%v: %+v, %+v", err, l.known(), p.Status())
		}
		lease.Release()
		s := p.Status()
		t.Logf("after %v: %+v, %+v", time.Since(began), l.known(), s)
		if now := l.known(); s.Failures > 0 || s.Late < 18 || now.Usage != time.Minute || time.Since(began) > time.Minute {
			t.Errorf("after %v: %+v, %+v", time.Since(began), now, s)
		}
		l.slow(0)
	})
}

// TestOneCircuitWhileNothingIsLearned: a client that knows no timeout begins no other circuit beside one that takes long, as C tor
// does not, unless it need not look like it.
func TestOneCircuitWhileNothingIsLearned(t *testing.T) {
	for _, fast := range []bool{false, true} {
		virtuallyAs(t, false, fast, func(t *testing.T, l *laggard) {
			l.slow(5 * time.Second)
			var asked atomic.Int64
			circ, err := l.build(t.Context(), pool.Spec{Slow: func() { asked.Add(1) }, Late: func() { t.Error("late") }})
			if err != nil {
				t.Fatal(err)
			}
			if (asked.Load() > 0) != fast {
				t.Errorf("fast: %v, and %d more are asked for", fast, asked.Load())
			}
			circ.Close()
			l.slow(0)
		})
	}
}

// TestManyMeasured: a guard that answers nothing does not make a client hold ever more circuits.
func TestManyMeasured(t *testing.T) {
	var u underway
	next := func() (*building, bool) {
		b := &building{}
		u.add(b)
		return b, u.measure(b)
	}
	for range maxMeasured {
		if _, ok := next(); !ok {
			t.Fatal("too few")
		}
	}
	last, ok := next()
	if ok {
		t.Error("no bound")
	}
	u.remove(last)
	u.measure(last) // it has just ended
	for b := range maps.Clone(u.all) {
		u.remove(b)
	}
	if u.late != 0 {
		t.Errorf("%d are counted, and all have ended", u.late)
	}
}
