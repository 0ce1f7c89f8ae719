package hsclient

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
)

// TestOneAttempt: requests of one key share an attempt, which ends when none of
// them waits any more; other keys have their own.
func TestOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		began, ended := 0, 0
		f := &fakeNet{dir: func(ctx context.Context) (*netdir.Directory, error) {
			mu.Lock()
			began++
			mu.Unlock()
			<-ctx.Done()
			mu.Lock()
			ended++
			mu.Unlock()
			return nil, fault.New(fault.Timeout, "%w", context.Cause(ctx))
		}}
		counts := func() [2]int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return [2]int{began, ended}
		}
		c := New(Config{Network: f, Log: slog.New(slog.DiscardHandler)})
		s := newService(t)
		errs := make(chan error, 10)
		ask := func(key isolation.Key) context.CancelFunc {
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				_, err := c.Acquire(ctx, s.id, key, false)
				errs <- err
			}()
			synctest.Wait()
			return cancel
		}
		one, two := ask(isolation.Key{}), ask(isolation.Key{Host: "not looked at"})
		three := ask(isolation.Key{Child: 1})
		if got := counts(); got != [2]int{2, 0} {
			t.Errorf("attempts begun and ended: %v", got)
		}
		one()
		if got := counts(); got != [2]int{2, 0} {
			t.Errorf("one gave up: %v", got)
		}
		two()
		if got := counts(); got != [2]int{2, 1} {
			t.Errorf("both gave up: %v", got)
		}
		for range 2 {
			if err := <-errs; !fault.Is(err, fault.Closed) {
				t.Error(err)
			}
		}
		time.Sleep(connectTimeout)
		if got := counts(); got != [2]int{2, 2} {
			t.Errorf("after two minutes: %v", got)
		}
		if err := <-errs; !errors.Is(err, errConnectTimeout) {
			t.Error(err)
		}
		three()
		four := ask(isolation.Key{})
		c.NewIdentity()
		five := ask(isolation.Key{})
		if got := counts(); got != [2]int{4, 2} {
			t.Errorf("a new identity: %v", got)
		}
		c.Close()
		if got := counts(); got != [2]int{4, 4} {
			t.Errorf("closed: %v", got)
		}
		for range 2 {
			if err := <-errs; err == nil {
				t.Error("no error")
			}
		}
		if _, err := c.Acquire(context.Background(), s.id, isolation.Key{}, false); !fault.Is(err, fault.Closed) || !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		four()
		five()
		if len(c.conns) != 0 {
			t.Errorf("%d connections are left", len(c.conns))
		}
	})
}

// TestNoRendezvousPoint: another circuit is tried when one cannot be made a
// rendezvous point, and the error of the last one is told.
func TestNoRendezvousPoint(t *testing.T) {
	f := &countingNet{}
	c := New(Config{Network: f, Log: slog.New(slog.DiscardHandler)})
	defer c.Close()
	a := &attempt{c: c}
	if err := a.rendezvousPoint(t.Context()); a.rend != nil || err != errNoCircuit || f.n != maxRendezvous || a.pending != nil {
		t.Errorf("%v after %d tries", err, f.n)
	}
}

// countingNet counts the circuits that were asked for.
type countingNet struct {
	fakeNet
	n int
}

func (f *countingNet) Internal(context.Context, bool) (OwnedCircuit, error) {
	f.n++
	return nil, errNoCircuit
}

// nilNet gives, with its error, a circuit that is a nil pointer, after it has ended the
// attempt.
type nilNet struct {
	*fakeNet
	giveUp context.CancelFunc
}

type nilCircuit struct {
	endAt
	closed bool
}

func (c *nilCircuit) Close() { c.closed = true }

func (n nilNet) To(context.Context, linkspec.Target, []linkspec.Spec) (OwnedCircuit, error) {
	n.giveUp()
	var c *nilCircuit
	return c, errNoCircuit
}

// TestGivenUpOnTheWay: an attempt that ends while the circuit to an introduction point
// fails uses nothing of that circuit.
func TestGivenUpOnTheWay(t *testing.T) {
	s := newService(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := newClient(t, &fakeNet{})
	c.cfg.Network = nilNet{&fakeNet{}, cancel}
	c.cfg.Private = true
	if _, _, _, err := c.reach(ctx, c.history(s.id), &cached{inner: &s.inner, blinded: s.blinded}, false); !fault.Is(err, fault.Closed) {
		t.Error(err)
	}
}
