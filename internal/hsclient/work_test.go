package hsclient

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hspow"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

func TestRaise(t *testing.T) {
	for _, c := range []struct {
		suggested uint32
		lost      int
		most      uint32
		want      uint32
	}{
		{0, 0, 10_000, 0}, {0, 1, 10_000, 8}, {0, 2, 10_000, 16}, {0, 8, 10_000, 1024}, {0, 9, 10_000, 1536},
		{7, 0, 10_000, 7}, {7, 1, 10_000, 14}, {3, 1, 10_000, 8}, {999, 1, 10_000, 1998}, {1000, 1, 10_000, 1500},
		{9999, 1, 10_000, 10_000}, {1<<32 - 1, 0, 10_000, 10_000}, {1<<32 - 1, 1000, 10_000, 10_000}, {0, 1 << 40, 10_000, 10_000},
		{0, 1, 5, 5}, {7, 3, 0, 0}, {1 << 30, 100, 1<<32 - 1, 1<<32 - 1},
	} {
		if got := raise(c.suggested, c.lost, c.most); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestWorkWanted: the error of a service that did not come says that it asks for proof
// of work; other errors have other reasons.
func TestWorkWanted(t *testing.T) {
	lost := fault.New(fault.Timeout, "onion service: %w in time", ErrRendezvous)
	asks := &netdoc.HSPoW{Effort: 7}
	for _, c := range []struct {
		work         *netdoc.HSPoW
		effort, most uint32
		want         string
	}{
		{asks, 14, 100, "effort 7, and this client has done effort 14"},
		{asks, 0, 0, "effort 7, and this client does none"},
		{asks, 5, 5, "effort 7, and this client does at most 5"},
		{new(netdoc.HSPoW), 8, 100, "effort 0, and this client has done effort 8"},
	} {
		if err := workWanted(lost, c.work, c.effort, c.most); !errors.Is(err, ErrRendezvous) || !fault.Is(err, fault.Timeout) || !strings.HasSuffix(err.Error(), c.want) {
			t.Error(err)
		}
	}
	for _, c := range []struct {
		err  error
		work *netdoc.HSPoW
	}{{nil, asks}, {lost, nil}, {lost, new(netdoc.HSPoW)}, {errNoCircuit, asks}} {
		if err := workWanted(c.err, c.work, 0, 100); err != c.err {
			t.Error(err)
		}
	}
}

// newWorker returns a client that makes proofs of work.
func newWorker(t *testing.T, most uint32) *Client {
	t.Helper()
	c := New(Config{Network: &fakeNet{}, Log: slog.New(slog.DiscardHandler), MaxEffort: most})
	t.Cleanup(c.Close)
	return c
}

func asking(effort uint32) *cached {
	return &cached{inner: &netdoc.HSInner{PoW: &netdoc.HSPoW{Seed: [32]byte{1}, Effort: effort, Expires: time.Now().Add(time.Hour)}}, blinded: ident.Ed25519ID{2}}
}

// TestNoPuzzle: nothing is proved for a service that asks for nothing, or if the
// configuration forbids it.
func TestNoPuzzle(t *testing.T) {
	if newWorker(t, 0).puzzle(asking(7)) != nil || newWorker(t, 1).puzzle(&cached{inner: new(netdoc.HSInner)}) != nil {
		t.Error("there is a puzzle")
	}
}

// TestProofs: each introduction has a proof of its own, and one that no introduction took
// serves for the next.
func TestProofs(t *testing.T) {
	c := newWorker(t, 2)
	desc := asking(1)
	a := newRace(c.history(ident.Ed25519ID{}), nil, c.puzzle(desc))
	w := proofs{race: a}
	var nonces [][16]byte
	for range 2 {
		w.begin(t.Context())
		making := w.making
		if w.begin(t.Context()); w.making != making {
			t.Error("a second proof was begun")
		}
		pow, err := w.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := hspow.Check((*[32]byte)(&desc.blinded), &desc.inner.PoW.Seed, pow); err != nil || pow.Effort != 1 {
			t.Errorf("effort %d: %v", pow.Effort, err)
		}
		if slices.Contains(nonces, pow.Nonce) {
			t.Error("a proof was made twice")
		}
		nonces = append(nonces, pow.Nonce)
	}
	a.outbid()
	w.begin(t.Context())
	if pow, err := w.take(t.Context()); err != nil || pow.Effort != 2 {
		t.Errorf("%+v, %v", pow, err)
	}
}

// TestProofWithoutEffort: a service may suggest no effort. Then an introduction has no
// proof, until one was lost.
func TestProofWithoutEffort(t *testing.T) {
	c := newWorker(t, 100)
	a := newRace(c.history(ident.Ed25519ID{}), nil, c.puzzle(asking(0)))
	w := proofs{race: a}
	w.begin(t.Context())
	if pow, err := w.take(t.Context()); pow != nil || err != nil {
		t.Errorf("%+v, %v", pow, err)
	}
	<-a.ready
}

// TestProofNotInTime: a service can ask for so much work that an attempt ends before it is
// done; the error says so.
func TestProofNotInTime(t *testing.T) {
	c := newWorker(t, 1<<32-1)
	w := proofs{race: newRace(c.history(ident.Ed25519ID{}), nil, c.puzzle(asking(1<<32-1)))}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	w.begin(ctx)
	if _, err := w.take(ctx); !errors.Is(err, errUnproved) || !fault.Is(err, fault.Timeout) {
		t.Error(err)
	}
}

// TestLostIsRemembered: for two minutes, attempts to reach the same service begin with the
// effort of the one before. Attempts at the same time do not raise it together.
func TestLostIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newWorker(t, 1000)
		one, two := newRace(c.history(ident.Ed25519ID{}), nil, c.puzzle(asking(0))), newRace(c.history(ident.Ed25519ID{}), nil, c.puzzle(asking(0)))
		one.outbid()
		two.outbid()
		time.Sleep(forgive - time.Second)
		if e := newRace(c.history(ident.Ed25519ID{}), nil, c.puzzle(asking(0))).effort(); e != firstRaise {
			t.Errorf("effort %d", e)
		}
		two.outbid()
		time.Sleep(2 * time.Second)
		if e := newRace(c.history(ident.Ed25519ID{}), nil, c.puzzle(asking(0))).effort(); e != 2*firstRaise {
			t.Errorf("effort %d", e)
		}
		time.Sleep(forgive)
		if e := newRace(c.history(ident.Ed25519ID{}), nil, c.puzzle(asking(0))).effort(); e != 0 {
			t.Errorf("effort %d", e)
		}
	})
}

// TestBids: a service with one introduction point that serves only clients with much
// effort is asked again and again, with more effort, until it comes.
func TestBids(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newWorker(t, 10_000)
		p := new(netdoc.HSIntroPoint)
		a := newRace(c.history(ident.Ed25519ID{}), []*netdoc.HSIntroPoint{p}, c.puzzle(asking(0)))
		circ := new(closing)
		var mu sync.Mutex
		var efforts []uint32
		a.attempt = func(ctx context.Context, p *netdoc.HSIntroPoint) outcome {
			effort := a.effort()
			mu.Lock()
			efforts = append(efforts, effort)
			mu.Unlock()
			a.introduced(p, &cell.PoW{Effort: effort})
			if effort >= 30 {
				return outcome{circ: circ}
			}
			select {
			case <-time.After(slowService):
				a.slow <- struct{}{}
			case <-ctx.Done():
			}
			<-ctx.Done() // the service does not come
			return outcome{}
		}
		began := time.Now()
		if o := a.run(t.Context()); o.circ != circ || time.Since(began) != 3*slowService {
			t.Errorf("%+v after %v", o, time.Since(began))
		}
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(efforts, []uint32{0, 8, 16, 32}) || a.greatest() != 32 {
			t.Errorf("efforts %d, greatest %d", efforts, a.greatest())
		}
	})
}

// TestSeedExpired: a descriptor whose seed has expired is fetched again; if there is no
// newer one, it still serves.
func TestSeedExpired(t *testing.T) {
	f := &fakeNet{}
	c := New(Config{Network: f, Log: slog.New(slog.DiscardHandler), MaxEffort: 1})
	defer c.Close()
	s := newService(t)
	desc := asking(7)
	desc.blinded = s.blinded
	if got := c.freshSeed(t.Context(), c.history(s.id), desc); got != desc || len(f.to) != 0 {
		t.Errorf("%d directories were asked", len(f.to))
	}
	desc.inner.PoW.Expires = time.Now().Add(-time.Second)
	if got := c.freshSeed(t.Context(), c.history(s.id), desc); got != desc || len(f.to) == 0 {
		t.Errorf("%d directories were asked", len(f.to))
	}
}
