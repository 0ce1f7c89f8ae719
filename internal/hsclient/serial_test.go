package hsclient

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// patient is a cbt.Limiter with some time for each wait.
func patient(times map[cbt.Wait]time.Duration) cbt.Limiter {
	return func(ctx context.Context, w cbt.Wait, _ time.Duration, cause error) (context.Context, context.CancelFunc) {
		d, ok := times[w]
		if !ok {
			panic("a wait without a time")
		}
		return context.WithTimeoutCause(ctx, d, cause)
	}
}

// serialRace is a race of a client that looks like C tor's, with three points.
func serialRace(t *testing.T, puzzle *puzzle) *race {
	t.Helper()
	c := New(Config{Network: &fakeNet{}, Log: slog.New(slog.DiscardHandler), Limit: patient(map[cbt.Wait]time.Duration{cbt.ServiceCame: 7 * time.Second})})
	t.Cleanup(c.Close)
	points := make([]*netdoc.HSIntroPoint, 3)
	for i := range points {
		points[i] = &netdoc.HSIntroPoint{Auth: ident.Ed25519ID{byte(i)}}
	}
	r := newRace(c.history(ident.Ed25519ID{}), points, puzzle)
	r.more = func() []*netdoc.HSIntroPoint { return slices.Clone(points) }
	return r
}

// TestOneAfterTheOther: a client that looks like C tor's asks at one introduction point at a time, waits for the service as long as
// that does, and asks again, until its time is over.
func TestOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := serialRace(t, nil)
		var now, asked atomic.Int32
		r.attempt = func(ctx context.Context, p *netdoc.HSIntroPoint) outcome {
			if now.Add(1) != 1 {
				t.Error("two attempts at a time")
			}
			defer now.Add(-1)
			for ; p != nil; p = r.next() {
				if n := asked.Add(1); p.Auth[0] != byte(n-1)%3 {
					t.Errorf("introduction %d is at point %d", n, p.Auth[0])
				}
				r.introduced(p, nil)
				rend := &rendCircuit{circ: new(alive), joined: make(chan *circuit.Hop, 1)}
				began := time.Now()
				_, err := (&attempt{c: r.c, race: r, rend: rend}).await(ctx)
				if ctx.Err() != nil {
					return outcome{}
				}
				if !errors.Is(err, ErrRendezvous) || !fault.Is(err, fault.Timeout) || time.Since(began) != 7*time.Second {
					t.Errorf("%v after %v", err, time.Since(began))
				}
				r.failed(err, false)
			}
			return outcome{}
		}
		r.elsewhere = func(context.Context) outcome {
			t.Error("another descriptor is looked for")
			return outcome{}
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), connectTimeout, errConnectTimeout)
		defer cancel()
		began := time.Now()
		o := r.run(ctx)
		if !errors.Is(o.err, errConnectTimeout) || !errors.Is(o.err, ErrRendezvous) || time.Since(began) != connectTimeout || asked.Load() != 18 {
			t.Errorf("%v after %v and %d introductions", o.err, time.Since(began), asked.Load())
		}
	})
}

// TestWhatTheAttemptWaitedFor: the error of an attempt that is over before C tor would give its circuit up tells what did not happen.
func TestWhatTheAttemptWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := serialRace(t, nil)
		r.attempt = func(ctx context.Context, p *netdoc.HSIntroPoint) outcome {
			rend := &rendCircuit{circ: new(alive), joined: make(chan *circuit.Hop, 1)}
			if _, err := (&attempt{c: r.c, race: r, rend: rend}).await(ctx); err == nil {
				t.Error("the service came")
			}
			return outcome{}
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errConnectTimeout)
		defer cancel()
		if o := r.run(ctx); !errors.Is(o.err, errConnectTimeout) || !errors.Is(o.err, ErrRendezvous) || !fault.Is(o.err, fault.Timeout) {
			t.Error(o.err)
		}
	})
}

// TestSerialHasBounds: a service whose rendezvous fail at once is not asked without end, and one that asks for proofs of work is
// asked as always.
func TestSerialHasBounds(t *testing.T) {
	r := serialRace(t, nil)
	n := 0
	for p := r.next(); p != nil; p = r.next() {
		r.introduced(p, nil)
		n++
	}
	if n != maxSerial {
		t.Errorf("%d introductions", n)
	}
	r = serialRace(t, nil)
	r.more = func() []*netdoc.HSIntroPoint { return nil } // none can be used any more
	for range 3 {
		r.next()
	}
	if p := r.next(); p != nil {
		t.Error("a point that cannot be used is asked")
	}
	if r = serialRace(t, &puzzle{HSPoW: &netdoc.HSPoW{}}); r.serial() {
		t.Error("proofs of work")
	}
}

// TestUnansweredIntroduction: the rendezvous point serves another introduction if the first was not answered, as C tor's does. Until
// that is sent the service may come by the first.
func TestUnansweredIntroduction(t *testing.T) {
	r := &rendCircuit{circ: new(alive), point: new(circuit.Hop), joined: make(chan *circuit.Hop, 1), state: rendEstablished}
	a := &attempt{c: New(Config{Network: &fakeNet{}, Log: slog.New(slog.DiscardHandler)}), rend: r}
	defer a.c.Close()
	a.race = serialRace(t, nil)
	first, second := new(handshake.HSClientState), new(handshake.HSClientState)
	if err := r.arm(first, circuit.VirtualHop{}); err != nil {
		t.Fatal(err)
	}
	if !a.rendezvousServes(ErrIntroTimeout) || r.state != rendUnanswered || r.hs != first {
		t.Errorf("state %d", r.state)
	}
	if err := r.arm(second, circuit.VirtualHop{}); err != nil || r.hs != second || r.state != rendIntroduced {
		t.Errorf("%v, state %d", err, r.state)
	}
	hop := new(circuit.Hop)
	r.state = rendJoined
	r.joined <- hop
	if a.rendezvousServes(ErrIntroTimeout) {
		t.Error("the service has come, and the rendezvous point serves another introduction")
	}
	if got, err := a.introduceAndAwait(t.Context(), nil, nil); got != hop || err != nil {
		t.Errorf("%v: the service had come", err)
	}
	r.state = rendIntroduced
	if a.race.c.cfg.Limit = nil; a.rendezvousServes(ErrIntroTimeout) {
		t.Error("not of other clients: they have another rendezvous point already")
	}
}

// TestSilentRendezvousPoints: a client that looks like C tor's goes on to another rendezvous point when one does not answer, as
// long as its time is not over.
func TestSilentRendezvousPoints(t *testing.T) {
	c := New(Config{Network: &fakeNet{}, Log: slog.New(slog.DiscardHandler), Limit: patient(nil)})
	defer c.Close()
	a := &attempt{c: c}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	// Each of those is silent, and the next is asked for when the one before has failed.
	fail := func() *pendingRend {
		if n++; n == 2*maxRendezvous {
			cancel()
		}
		p := &pendingRend{make(chan *rendCircuit, 1), make(chan rendResult, 1)}
		p.done <- rendResult{nil, fault.New(fault.Timeout, "onion service: the rendezvous point: %w", errNotEstablished)}
		return p
	}
	if err := a.awaitRendezvous(ctx, fail); !errors.Is(err, errNotEstablished) || n != 2*maxRendezvous {
		t.Errorf("%v after %d", err, n)
	}
}
