package hsservice

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/path"
)

// meeters is a network whose circuits to rendezvous points take as long as a test says.
type meeters struct {
	offline
	mu     sync.Mutex
	took   time.Duration
	met    int // circuits to rendezvous points that were asked for
	builds int // circuits to introduction points
}

func (m *meeters) To(ctx context.Context, _ linkspec.Target, _ []linkspec.Spec) (*circuit.Circuit, uint64, error) {
	m.mu.Lock()
	m.met++
	took := m.took
	m.mu.Unlock()
	select {
	case <-time.After(took / rendTries): // the test has no circuits, so that it is asked again
	case <-ctx.Done():
	}
	return nil, 0, fault.New(fault.Network, "the test has no circuits")
}

func (m *meeters) Build(ctx context.Context, spec path.Spec) (*circuit.Circuit, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.builds++
	return m.offline.Build(ctx, spec)
}

// leaver is a host that leaves a fleet in a test.
type leaver struct {
	*Service
	net    *meeters
	ids    []*point
	mu     sync.Mutex
	closed map[*circuit.Circuit]time.Duration // after the call of Leave
	began  time.Time
	cancel context.CancelFunc
	err    error
	took   time.Duration
	over   chan struct{}
}

// leavers returns a host whose circuits can be closed, and another host of its fleet, both
// published.
func leavers(t *testing.T, h *shelf) (*leaver, *Service) {
	t.Helper()
	k := key(t)
	a, b := h.join(t, Config{Key: k, Fleet: true}, 3), h.join(t, Config{Key: k, Fleet: true}, 3)
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	h.expect(t, "before", k, a, b)
	l := &leaver{Service: a, net: &meeters{offline: offline{d: h.dir}}, closed: map[*circuit.Circuit]time.Duration{}, over: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	l.ids = slices.Clone(a.points)
	a.cfg.Network = l.net
	a.subcreds = append(a.subcreds, [32]byte{2})
	a.destroy = func(c *circuit.Circuit) {
		l.note(c)
		for _, p := range l.ids {
			if p.circ == c {
				go a.pointEnded(p, c, ErrDone) // as its end would
			}
		}
	}
	return l, b
}

func (l *leaver) note(c *circuit.Circuit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed[c] = time.Since(l.began)
}

// leave begins to leave.
func (l *leaver) leave(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l.cancel, l.began = cancel, time.Now()
	go func() {
		defer close(l.over)
		l.err = l.Leave(ctx)
		l.took = time.Since(l.began)
	}()
}

// client notes a client that was met, with so many streams.
func (l *leaver) client(streams int64, used bool) (*circuit.Circuit, *clientCircuit) {
	l.Service.mu.Lock()
	defer l.Service.mu.Unlock()
	c, r := new(circuit.Circuit), &clientCircuit{idle: time.Now()}
	r.open.Store(streams)
	r.used.Store(used)
	l.clients[c] = r
	return c, r
}

// end takes away what is no circuit, and closes the services.
func (l *leaver) end(b *Service) {
	l.cancel()
	<-l.over
	l.Service.mu.Lock()
	clear(l.clients)
	l.Service.mu.Unlock()
	kill(l.Service)
	kill(b)
}

func (l *leaver) whenClosed(c *circuit.Circuit) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed[c]
}

func (l *leaver) ended() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// A host that leaves serves introductions until its points close, opens no others, finishes
// what is under way, and lets streams end.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newShelf(t)
		l, b := leavers(t, h)
		l.net.took = 8 * time.Second
		idle, _ := l.client(0, true)
		fresh, _ := l.client(0, false)
		busy, r := l.client(1, true)
		l.leave(t)
		select {
		case <-l.fleet.gone:
		case <-l.over:
			t.Fatal(l.err)
		}
		withdrawn := time.Since(l.began)
		h.expect(t, "while it leaves", l.cfg.Key, b)
		time.Sleep(settleTime - time.Second)
		synctest.Wait()
		if l.whenClosed(l.ids[0].circ) != 0 || len(l.Status().Points) != 3 {
			t.Error("a point has closed although clients may have just fetched the old descriptor")
		}
		a := ask()
		if err := l.queueIntroduce2(l.ids[0], nil, a.message(t, l.ids[0])); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for _, p := range l.ids {
			if at := l.whenClosed(p.circ); at != withdrawn+settleTime {
				t.Errorf("a point closed after %v, not %v", at, withdrawn+settleTime)
			}
		}
		if at := l.whenClosed(idle); at == 0 || at > withdrawn+settleTime+time.Second {
			t.Errorf("the circuit of an idle client closed after %v", at)
		}
		time.Sleep(15 * time.Second) // the rendezvous is over
		synctest.Wait()
		if l.net.met != rendTries {
			t.Errorf("circuits to the client's rendezvous point: %d", l.net.met)
		}
		if l.net.builds != 0 {
			t.Errorf("%d circuits to introduction points", l.net.builds)
		}
		if at := l.whenClosed(fresh); at == 0 {
			t.Error("a circuit without streams goes on")
		}
		if l.ended() || l.whenClosed(busy) != 0 {
			t.Fatal("it has cut a stream")
		}
		r.open.Store(0)
		time.Sleep(quietTime + 5*leaveLook)
		synctest.Wait()
		if !l.ended() || l.err != nil || l.whenClosed(busy) == 0 {
			t.Errorf("left: %v, %v", l.ended(), l.err)
		}
		l.end(b)
	})
}

// Leave waits for a rendezvous under way, but not for one that does not come about.
func TestLeaveMeets(t *testing.T) {
	for took, most := range map[time.Duration]time.Duration{4 * time.Second: 4 * time.Second, time.Minute: meetTime} {
		synctest.Test(t, func(t *testing.T) {
			l, b := leavers(t, newShelf(t))
			l.net.took = took
			l.leave(t)
			<-l.fleet.gone
			time.Sleep(settleTime - time.Second)
			a := ask()
			if err := l.queueIntroduce2(l.ids[0], nil, a.message(t, l.ids[0])); err != nil {
				t.Fatal(err)
			}
			asked := time.Now()
			<-l.over
			if d := time.Since(asked); d < most || d > most+5*leaveLook || l.err != nil {
				t.Errorf("a rendezvous of %v: it left after %v, %v", took, d, l.err)
			}
			l.end(b)
		})
	}
}

// A stream that does not end is cut after some time.
func TestLeaveGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, b := leavers(t, newShelf(t))
		l.client(1, true)
		l.leave(t)
		<-l.fleet.gone
		withdrawn := time.Since(l.began)
		<-l.over
		if want := withdrawn + settleTime + graceTime; l.err != nil || l.took < want || l.took > want+leaveLook {
			t.Errorf("%v after %v, not %v", l.err, l.took, want)
		}
		l.end(b)
	})
}

// A host that is told to hurry, or is closed, ends at once, wherever it is.
func TestLeaveHurry(t *testing.T) {
	for name, at := range map[string]time.Duration{"withdrawing": 0, "settling": settleTime / 2, "waiting for streams": settleTime + time.Second} {
		for _, how := range []string{"told", "closed"} {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newShelf(t)
					l, b := leavers(t, h)
					if at == 0 {
						h.change(func() { h.slow = time.Hour })
					}
					l.client(1, true)
					l.leave(t)
					if at == 0 {
						time.Sleep(time.Second)
					} else {
						<-l.fleet.gone
					}
					time.Sleep(at)
					synctest.Wait()
					if l.ended() {
						t.Fatal("it has left already")
					}
					now := time.Now()
					if how == "told" {
						l.cancel()
					} else {
						l.Service.mu.Lock()
						clear(l.clients)
						for _, p := range l.ids {
							p.circ = nil
						}
						l.Service.mu.Unlock()
						l.Close()
					}
					<-l.over
					if d := time.Since(now); d != 0 || (l.err != nil) != (at == 0) {
						t.Errorf("%v after %v", l.err, d)
					}
					l.end(b)
				})
			})
		}
	}
}

// Directories that cannot be reached, or refuse the descriptor, do not keep a host for
// long. Its points close nevertheless: relays then refuse clients.
func TestLeaveBadDirectories(t *testing.T) {
	for name, change := range map[string]func(h *shelf){
		"down":    func(h *shelf) { h.deaf = fault.New(fault.Network, "the network is down") },
		"refuse":  func(h *shelf) { h.refuses = fault.New(fault.Refused, "no") },
		"silence": func(h *shelf) { h.slow = time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newShelf(t)
				l, b := leavers(t, h)
				h.change(func() { change(h) })
				_, r := l.client(1, true)
				l.leave(t)
				time.Sleep(withdrawTime + time.Second)
				synctest.Wait()
				if l.ended() {
					t.Fatal("it has cut a stream")
				}
				for _, p := range l.ids {
					if at := l.whenClosed(p.circ); at != withdrawTime {
						t.Errorf("a point closed after %v", at)
					}
				}
				r.open.Store(0)
				<-l.over
				if !errors.Is(l.err, context.DeadlineExceeded) || !fault.Is(l.err, fault.Timeout) {
					t.Error(l.err)
				}
				l.end(b)
			})
		})
	}
}

// A host without others, and a service without a fleet, do not wait: nobody serves their
// clients meanwhile.
func TestLeaveAlone(t *testing.T) {
	for _, fleet := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newShelf(t)
			s := h.join(t, Config{Key: key(t), Fleet: fleet}, 3)
			time.Sleep(time.Minute)
			began := time.Now()
			if err := s.Leave(t.Context()); err != nil || time.Since(began) > 10*time.Second {
				t.Errorf("fleet: %v: %v after %v", fleet, err, time.Since(began))
			}
			h.expect(t, "it has left", s.cfg.Key, s)
			kill(s)
		})
	}
}
