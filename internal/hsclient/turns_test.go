package hsclient

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/isolation"
)

func keyOf(name string) isolation.Key { return isolation.Key{Auth: isolation.NewAuth(name)} }

// madeUp returns addresses of services that do not exist.
func madeUp(t *testing.T, n int) (out []ident.Ed25519ID) {
	for range n {
		out = append(out, newService(t).id)
	}
	return out
}

// asks asks for services as programs do, each on a goroutine of its own.
func asks(ctx context.Context, c *Client, key isolation.Key, all ...ident.Ed25519ID) {
	for _, id := range all {
		go func() {
			if l, err := c.Acquire(ctx, id, key, false); err == nil {
				l.Release()
			}
		}()
	}
}

func (f *fakeNet) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.to)
}

// TestMadeUpServices: a page that names thousands of services that nobody has does not make
// the client build a circuit for each at once, whatever the isolation of its port: the page
// chooses the destinations.
func TestMadeUpServices(t *testing.T) {
	all := madeUp(t, 400) // each would cause six circuits
	for name, by := range map[string]isolation.By{"no isolation": 0, "by destination": isolation.ByDestAddr | isolation.ByDestPort} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeNet{}
				c := newClient(t, f)
				defer c.Close()
				for i, id := range all {
					key := keyOf("the page")
					key.By, key.Host, key.Port = by, string(id[:]), uint16(i)
					asks(t.Context(), c, key, id)
				}
				const span = 4800 * time.Millisecond
				time.Sleep(span)
				synctest.Wait()
				most := keyBurst + int(keyRate*span.Seconds())
				if n := f.asked(); n > most || n < most-1 {
					t.Errorf("%d circuits in %v, and %d may be", n, span, most)
				}
			})
		})
	}
}

// TestPageOfServices: a page that embeds twenty services loads at once, also if the first two
// directories of each do not answer.
func TestPageOfServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tu := newTurns(slog.New(slog.DiscardHandler))
		began := time.Now()
		for range 3 * 20 {
			if err := tu.wait(t.Context(), keyOf("the page")); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// TestTurnsOfAll: the client as a whole has a bound, however many isolation keys ask, and keys
// that wait take turns.
func TestTurnsOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tu := newTurns(slog.New(slog.DiscardHandler))
		got := map[string]int{}
		had := make(chan string)
		ctx, cancel := context.WithCancel(t.Context())
		ask := func(name string, n int) {
			for range n {
				go func() {
					if tu.wait(ctx, keyOf(name)) == nil {
						had <- name
					}
				}()
			}
			synctest.Wait()
		}
		count := func(d time.Duration) (n int) {
			end := time.After(d)
			clear(got)
			for {
				select {
				case name := <-had:
					got[name]++
					n++
				case <-end:
					return n
				}
			}
		}
		for i := range 2 * allBurst / keyBurst { // the whole burst is used up
			ask("early "+string(rune('a'+i)), keyBurst)
		}
		if n := count(time.Millisecond); n != allBurst {
			t.Fatalf("%d at once, not %d", n, allBurst)
		}
		clear(got)
		cancel() // those that wait leave
		synctest.Wait()
		ctx, cancel = context.WithCancel(t.Context())
		ask("flood", 40)
		ask("a user", 3)
		ask("another", 3)
		// All take turns: so each of the others has its three after nine at the latest.
		if n := count(9*time.Second/allRate + time.Millisecond); n < 8 || got["a user"] != 3 || got["another"] != 3 {
			t.Errorf("%d of these: %v", n, got)
		}
		cancel()
		synctest.Wait()
	})
}

// TestGoneAskerLeavesTheLine: when the last program that asked for a service goes, its fetch
// leaves the line, and builds no circuit later.
func TestGoneAskerLeavesTheLine(t *testing.T) {
	all := madeUp(t, 40)
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNet{}
		c := newClient(t, f)
		defer c.Close()
		ctx, leave := context.WithCancel(t.Context())
		asks(ctx, c, keyOf("one"), all...)
		synctest.Wait()
		leave()
		synctest.Wait()
		n := f.asked()
		time.Sleep(time.Minute)
		synctest.Wait()
		if later := f.asked() - n; n != keyBurst || later > 0 {
			t.Errorf("%d circuits at once, and %d after the programs had gone", n, later)
		}
	})
}

// TestTooLongInLine: whose turn does not come in the time of an attempt learns why.
func TestTooLongInLine(t *testing.T) {
	all := madeUp(t, 120) // in two minutes there are some ninety turns of six
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, &fakeNet{})
		defer c.Close()
		errs := make(chan error)
		for _, id := range all {
			go func() {
				_, err := c.Acquire(t.Context(), id, keyOf("one"), false)
				errs <- err
			}()
		}
		waited := 0
		for range all {
			switch err := <-errs; {
			case errors.Is(err, errInLine) && errors.Is(err, errConnectTimeout) && fault.Is(err, fault.Timeout):
				waited++
			case !errors.Is(err, ErrNoDescriptor):
				t.Fatal(err)
			}
		}
		if waited == 0 || waited == len(all) {
			t.Errorf("%d of %d waited for too long", waited, len(all))
		}
	})
}

// TestTurnsOfTheGone: who goes leaves the line, and whoever is behind moves up; nothing stays.
func TestTurnsOfTheGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tu := newTurns(slog.New(slog.DiscardHandler))
		key := keyOf("one")
		for range keyBurst {
			if err := tu.wait(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		going, leave := context.WithCancelCause(t.Context())
		gone := make(chan error, 100)
		for range 100 {
			go func() { gone <- tu.wait(going, key) }()
		}
		synctest.Wait()
		began := time.Now()
		stays := make(chan error, 1)
		go func() { stays <- tu.wait(t.Context(), key) }()
		synctest.Wait()
		why := errors.New("the program has gone")
		leave(why)
		for range 100 {
			if err := <-gone; !errors.Is(err, why) || !fault.Is(err, fault.Closed) {
				t.Fatal(err)
			}
		}
		if err := <-stays; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second/keyRate+time.Millisecond {
			t.Errorf("the next one waited for %v", took)
		}
		tu.mu.Lock()
		defer tu.mu.Unlock()
		if len(tu.ring) > 0 || tu.timer != nil {
			t.Errorf("%d keys wait, timer %v", len(tu.ring), tu.timer)
		}
	})
}

// TestTurnsForget: the memory of the buckets has a bound, however many keys there are, and
// a new identity empties it.
func TestTurnsForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tu := newTurns(slog.New(slog.DiscardHandler))
		most := 0
		for range 5000 {
			if err := tu.wait(t.Context(), isolation.Key{Child: rand.Uint64()}); err != nil {
				t.Fatal(err)
			}
			tu.mu.Lock()
			most = max(most, len(tu.keys))
			tu.mu.Unlock()
		}
		if most > allBurst+allRate/keyRate+1 { // each is full again after a quarter of a second
			t.Errorf("%d buckets", most)
		}
		tu.forget()
		if len(tu.keys) > 0 {
			t.Errorf("%d buckets are left", len(tu.keys))
		}
	})
}

// TestTurnsAndNewIdentity: a new identity forgets which isolation keys there were. Who waits goes on
// waiting.
func TestTurnsAndNewIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, &fakeNet{})
		defer c.Close()
		one := keyOf("one")
		for range keyBurst {
			if err := c.turns.wait(t.Context(), one); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.turns.wait(t.Context(), keyOf("two")); err != nil {
			t.Fatal(err)
		}
		waits := make(chan error, 1)
		go func() { waits <- c.turns.wait(t.Context(), one) }()
		synctest.Wait()
		c.NewIdentity()
		if n := len(c.turns.keys); n != 1 || c.turns.keys[asker(one)] == nil {
			t.Errorf("%d keys are known", n)
		}
		if err := <-waits; err != nil {
			t.Error(err)
		}
	})
}
