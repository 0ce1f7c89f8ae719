package hsclient

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// closing is a circuit that counts how often it was closed.
type closing struct {
	endAt
	n atomic.Int32
}

func (c *closing) Close() { c.n.Add(1) }

// doing is what an attempt does through an introduction point.
type doing func(ctx context.Context, a *race) outcome

// try runs a race whose points do what they are told.
func try(t *testing.T, ctx context.Context, points ...doing) (o outcome, tried int, took time.Duration) {
	t.Helper()
	c := New(Config{Network: &fakeNet{}, Log: slog.New(slog.DiscardHandler)})
	defer c.Close()
	list := make([]*netdoc.HSIntroPoint, len(points))
	for i := range points {
		list[i] = &netdoc.HSIntroPoint{Auth: ident.Ed25519ID{byte(i)}}
	}
	a := newRace(c.history(ident.Ed25519ID{}), list, nil)
	var n atomic.Int32
	a.attempt = func(ctx context.Context, p *netdoc.HSIntroPoint) outcome {
		for ; p != nil; p = a.next() {
			n.Add(1)
			if o := points[p.Auth[0]](ctx, a); o.circ != nil || o.err != nil || ctx.Err() != nil {
				return o
			}
		}
		return outcome{}
	}
	began := time.Now()
	o = a.run(ctx)
	return o, int(n.Load()), time.Since(began)
}

// ignored is a service that does not come, or comes after d.
func ignored(d time.Duration, circ OwnedCircuit) doing {
	return func(ctx context.Context, a *race) outcome {
		a.introduced(nil, nil)
		select {
		case <-time.After(slowService):
			a.slow <- struct{}{}
		case <-ctx.Done():
			return outcome{}
		}
		select {
		case <-time.After(d - slowService):
			if circ == nil {
				a.failed(fault.New(fault.Timeout, "onion service: %w in time", ErrRendezvous), false)
			}
			return outcome{circ: circ}
		case <-ctx.Done():
			return outcome{}
		}
	}
}

// comes is a service that comes after d.
func comes(d time.Duration, circ OwnedCircuit) doing {
	return func(ctx context.Context, a *race) outcome {
		a.introduced(nil, nil)
		time.Sleep(d)
		return outcome{circ: circ}
	}
}

func unreachable(context.Context, *race) outcome { return outcome{} }

// TestSecondCourse: a service that does not come through one introduction point is
// asked through another one, soon.
func TestSecondCourse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		circ := new(closing)
		o, tried, took := try(t, t.Context(), ignored(rendezvousTimeout, nil), comes(time.Second, circ))
		if o.circ != circ || o.err != nil || tried != 2 || took != slowService+time.Second {
			t.Errorf("%+v after %v, %d points", o, took, tried)
		}
		if circ.n.Load() != 0 {
			t.Error("the circuit to the service is closed")
		}
	})
}

// TestFirstCourseGoesOn: the first rendezvous stays open while there is a second one,
// and of two circuits to the service one is closed.
func TestFirstCourseGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := new(closing), new(closing)
		o, tried, took := try(t, t.Context(), ignored(5*time.Second, first), comes(9*time.Second, second), comes(0, nil))
		if o.circ != first || tried != 2 || took != 5*time.Second {
			t.Errorf("%+v after %v, %d points", o, took, tried)
		}
		synctest.Wait()
		if first.n.Load() != 0 || second.n.Load() != 1 {
			t.Errorf("closed: %d times, %d times", first.n.Load(), second.n.Load())
		}
	})
}

// TestFrozenPoint: an introduction point that does not answer holds up nobody.
func TestFrozenPoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frozen := func(ctx context.Context, a *race) outcome {
			select {
			case <-time.After(introduceTimeout):
				a.failed(ErrIntroTimeout, true)
			case <-ctx.Done():
			}
			return outcome{}
		}
		circ := new(closing)
		if o, tried, took := try(t, t.Context(), frozen, comes(time.Second, circ)); o.circ != circ || tried != 2 || took != slowIntroduction+time.Second {
			t.Errorf("%+v after %v, %d points", o, took, tried)
		}
		o, tried, took := try(t, t.Context(), frozen, frozen, frozen)
		if !errors.Is(o.err, ErrIntroTimeout) || !fault.Is(o.err, fault.Timeout) || tried != 3 || took != 2*introduceTimeout {
			t.Errorf("%+v after %v, %d points", o, took, tried)
		}
	})
}

// TestIntroductionsAreFew: a service that does not come is asked three times, and its
// client gives up then; a service with one point, once.
func TestIntroductionsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		no := ignored(rendezvousTimeout, nil)
		o, tried, took := try(t, t.Context(), no, no, no, no)
		if !errors.Is(o.err, ErrRendezvous) || tried != maxRendezvous || took != 2*slowService+rendezvousTimeout {
			t.Errorf("%+v after %v, %d points", o, took, tried)
		}
		if o, tried, took = try(t, t.Context(), no); !errors.Is(o.err, ErrRendezvous) || tried != 1 || took != rendezvousTimeout {
			t.Errorf("%+v after %v, %d points", o, took, tried)
		}
		if o, tried, _ = try(t, t.Context(), unreachable, unreachable, comes(0, new(closing))); o.circ == nil || tried != 3 {
			t.Errorf("%+v, %d points", o, tried)
		}
	})
}

// TestRaceEnds: all attempts end with the attempt, and its error tells why.
func TestRaceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errConnectTimeout)
		defer cancel()
		no := ignored(rendezvousTimeout, nil)
		if o, _, took := try(t, ctx, no, no); !errors.Is(o.err, errConnectTimeout) || took != 10*time.Second {
			t.Errorf("%+v after %v", o, took)
		}
		fatal := func(context.Context, *race) outcome { return outcome{err: errNoCircuit} }
		if o, tried, _ := try(t, t.Context(), fatal, no); o.err != errNoCircuit || tried != 1 {
			t.Errorf("%+v, %d points", o, tried)
		}
	})
}

// alive is a circuit that is open.
type alive struct {
	endAt
	engine circuit.Circuit
}

func (a *alive) Engine() *circuit.Circuit { return &a.engine }

// TestAwaitSaysThatItIsSlow: once, and it goes on.
func TestAwaitSaysThatItIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rend := &rendCircuit{circ: new(alive), joined: make(chan *circuit.Hop, 1)}
		slow := make(chan struct{}, 1)
		began := time.Now()
		done := make(chan error, 1)
		go func() {
			_, err := awaitService(t.Context(), rend, slow)
			done <- err
		}()
		<-slow
		if d := time.Since(began); d != slowService {
			t.Errorf("it said so after %v", d)
		}
		if err := <-done; !errors.Is(err, ErrRendezvous) || time.Since(began) != rendezvousTimeout || len(slow) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		rend.joined <- new(circuit.Hop)
		if hop, err := awaitService(t.Context(), rend, slow); hop == nil || err != nil {
			t.Error(err)
		}
	})
}
