package circuit

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics/panicstest"
)

var errTest = fault.New(fault.Closed, "test")

// bare returns a circuit without a channel.
func bare() *Circuit {
	return newCircuit(&Env{Log: slog.New(slog.DiscardHandler), Now: time.Now}, fromRelay)
}

// lock is a mutex for which synctest knows that a goroutine waits: if all do, the test fails.
type lock chan struct{}

func (l lock) Lock()   { l <- struct{}{} }
func (l lock) Unlock() { <-l }

// TestOnCloseOrder: what comes before the end runs once, in its order, when Done is closed.
func TestOnCloseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bare()
		var got []int
		for i := range 3 {
			c.OnClose(func(cause error) {
				if !errors.Is(cause, errTest) || !c.over() {
					t.Errorf("%d: %v, over: %v", i, cause, c.over())
				}
				<-c.Done()
				got = append(got, i)
			})
		}
		c.Close(cell.DestroyNone, errTest)
		c.Close(cell.DestroyNone, errors.New("another one"))
		c.env.WaitEnds()
		if !slices.Equal(got, []int{0, 1, 2}) {
			t.Error(got)
		}
	})
}

// TestOnCloseUnderLock: who holds a lock that a function takes may register it, and close the
// circuit, whatever came first.
func TestOnCloseUnderLock(t *testing.T) {
	for name, do := range map[string]func(c *Circuit, f func(error)){
		"before": func(c *Circuit, f func(error)) {
			c.OnClose(f)
			c.Close(cell.DestroyNone, errTest)
		},
		"after": func(c *Circuit, f func(error)) {
			c.Close(cell.DestroyNone, errTest)
			c.OnClose(f)
		},
		"in the middle": func(c *Circuit, f func(error)) {
			h := &Hop{c: c}
			c.addHop(h)
			h.streams = map[uint16]StreamReceiver{1: ender{f: func() { c.OnClose(f) }}}
			c.Close(cell.DestroyNone, errTest)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, mu, ran := bare(), make(lock, 1), 0
				mu.Lock()
				do(c, func(cause error) {
					mu.Lock()
					defer mu.Unlock()
					ran++
					if cause != errTest || !c.over() {
						t.Errorf("%v, over: %v", cause, c.over())
					}
				})
				synctest.Wait()
				if ran != 0 {
					t.Error("it has run under the lock")
				}
				mu.Unlock()
				c.env.WaitEnds()
				if mu.Lock(); ran != 1 {
					t.Errorf("it ran %d times", ran)
				}
				mu.Unlock()
			})
		})
	}
}

// ender is a stream that runs a function when its circuit closes.
type ender struct {
	deaf
	f func()
}

func (e ender) HandleCircuitClose(error) { e.f() }

// TestOnCloseRace: what many goroutines register while others close runs once each.
func TestOnCloseRace(t *testing.T) {
	for range 50 {
		c := bare()
		var wg sync.WaitGroup
		var ran [20]atomic.Int32
		for i := range ran {
			wg.Go(func() {
				if i%5 == 4 {
					c.Close(cell.DestroyNone, errTest)
				}
				c.OnClose(func(cause error) {
					if cause != errTest {
						t.Error(cause)
					}
					ran[i].Add(1)
				})
			})
		}
		wg.Wait()
		c.env.WaitEnds()
		for i := range ran {
			if n := ran[i].Load(); n != 1 {
				t.Fatalf("%d ran %d times", i, n)
			}
		}
	}
}

// TestOnCloseWaits: WaitEnds waits for a function under way, and for nothing else.
func TestOnCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bare()
		c.env.WaitEnds()
		c.OnClose(func(error) { time.Sleep(time.Minute) })
		c.env.WaitEnds() // the circuit is open
		c.Close(cell.DestroyNone, errTest)
		began := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(c.env.WaitEnds)
		}
		wg.Wait()
		if d := time.Since(began); d != time.Minute { // virtual
			t.Error(d)
		}
		c.env.WaitEnds()
	})
}

// TestOnClosePanics: a panic of one function keeps no other from running, and nobody waits
// for ever.
func TestOnClosePanics(t *testing.T) {
	panicstest.Expect(t, 1)
	c, ran := bare(), false
	c.OnClose(func(error) { panic("a mistake at the end") })
	c.OnClose(func(error) { ran = true })
	c.Close(cell.DestroyNone, errTest)
	c.env.WaitEnds()
	if !ran {
		t.Error("the second did not run")
	}
}

// TestOnCloseOfLink: when a channel is done, its circuits have closed, and WaitEnds waits for
// what hears of that.
func TestOnCloseOfLink(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.circuit(congested, nil)
		at := r.last()
		var ran atomic.Int32
		for _, c := range []*Circuit{c, at} {
			c.OnClose(func(error) { time.Sleep(time.Second); ran.Add(1) })
		}
		r.client.Close(errTest)
		<-r.client.Done()
		<-r.home.Done()
		if !c.over() || !at.over() {
			t.Error("a circuit is open")
		}
		c.env.WaitEnds()
		at.env.WaitEnds()
		if n := ran.Load(); n != 2 {
			t.Errorf("%d have run", n)
		}
	})
}

// TestClosedLeg: a circuit that has closed when it becomes a leg ends the set.
func TestClosedLeg(t *testing.T) {
	onRig(t, func(r *rig) {
		first, late := r.circuit(congested, nil), r.circuit(congested, nil)
		set := newConfluxSet([32]byte{1}, time.Now)
		if err := set.add(&leg{hop: first.Last()}); err != nil {
			t.Fatal(err)
		}
		late.Close(cell.DestroyNone, errTest)
		if err := set.add(&leg{hop: late.Last()}); err != nil {
			t.Fatal(err)
		}
		if err := first.Err(); !errors.Is(err, ErrLegClosed) || !errors.Is(err, errTest) {
			t.Errorf("the other leg: %v", err)
		}
	})
}
