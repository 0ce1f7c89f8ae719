package hsclient

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/netdoc"
)

// history returns the history of a service for streams without isolation.
func (c *Client) history(id ident.Ed25519ID) *history { return c.historyFor(id, isolation.Key{}) }

func (c *Client) historyFor(id ident.Ed25519ID, key isolation.Key) *history {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.historyLocked(connKey{id, key})
}

// TestHistoriesAreApart: what went wrong for the streams of one isolation key changes nothing
// for those of another, and what one service lists changes nothing for another service. A
// service could know a client again by the introduction points and the effort of its
// attempts, and could keep it from a service whose introduction points it lists.
func TestHistoriesAreApart(t *testing.T) {
	c := newWorker(t, 1000)
	p := netdoc.HSIntroPoint{Auth: ident.Ed25519ID{7}}
	desc := asking(0)
	desc.inner.Points = []netdoc.HSIntroPoint{p}
	one := isolation.Key{Auth: isolation.NewAuth("one")}
	h := c.historyFor(ident.Ed25519ID{1}, one)
	h.note(&p, func(s *pointState) { s.refused = true })
	newRace(h, nil, c.puzzle(desc)).outbid()
	for _, x := range []struct {
		what string
		h    *history
		same bool
	}{
		{"the same", c.historyFor(ident.Ed25519ID{1}, one), true},
		{"another key", c.historyFor(ident.Ed25519ID{1}, isolation.Key{Auth: isolation.NewAuth("two")}), false},
		{"no key", c.history(ident.Ed25519ID{1}), false},
		{"another service", c.historyFor(ident.Ed25519ID{2}, one), false},
	} {
		points, _ := x.h.usable(desc)
		effort := newRace(x.h, nil, c.puzzle(desc)).effort()
		if (len(points) == 0) != x.same || (effort == firstRaise) != x.same {
			t.Errorf("%s: %d points, effort %d", x.what, len(points), effort)
		}
	}
}

// TestAttemptOutlivesIdentity: what an attempt notes after a new identity was asked for is
// not seen by later attempts, and it uses no descriptor that they have fetched.
func TestAttemptOutlivesIdentity(t *testing.T) {
	s := newService(t)
	f := &fakeNet{}
	c := newClient(t, f)
	old := c.history(s.id)
	c.NewIdentity()
	p := &s.inner.Points[0]
	desc := &cached{inner: &s.inner, blinded: s.blinded, revision: 1, expires: time.Now().Add(time.Hour)}
	old.note(p, func(s *pointState) { s.refused = true })
	old.noteMissed(3)
	next := c.history(s.id)
	if points, _ := next.usable(desc); len(points) != 1 || next.recentMisses() != 0 {
		t.Errorf("%d points can be used, and %d introductions were lost", len(points), next.recentMisses())
	}
	c.keep(desc, next.epoch)
	if _, err := c.descriptor(t.Context(), old, nil); !errors.Is(err, ErrNoDescriptor) || len(f.to) == 0 {
		t.Errorf("an attempt of before uses a descriptor of after: %v", err)
	}
	if len(c.asked) != 0 {
		t.Error("the directories that it asked are remembered")
	}
}

// TestHistoriesAreBounded: strangers choose how many services a client tries, and how many
// introduction points they have. What is not used goes when its time is over.
func TestHistoriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Network: &fakeNet{}, Log: slog.New(slog.DiscardHandler)})
		defer c.Close()
		id := func(n int) (out ident.Ed25519ID) {
			binary.BigEndian.PutUint32(out[:], uint32(n))
			return out
		}
		for n := range maxHistories {
			c.history(id(n))
			time.Sleep(time.Millisecond)
		}
		kept := c.history(id(0))
		time.Sleep(time.Millisecond)
		for n := range maxHistories / 2 {
			c.history(id(maxHistories + n))
			time.Sleep(time.Millisecond)
		}
		if n := len(c.histories); n != maxHistories {
			t.Errorf("%d histories", n)
		}
		if c.history(id(0)) != kept {
			t.Error("what was used lately goes, and not the oldest")
		}
		first := c.history(id(0))
		for n := range 1000 {
			first.note(&netdoc.HSIntroPoint{Auth: id(n)}, func(s *pointState) { s.late = true })
			time.Sleep(time.Millisecond)
		}
		if first.points[id(1000-maxNoted)] == nil {
			t.Error("a younger point goes before the oldest")
		}
		if n := len(first.points); n != maxNoted {
			t.Errorf("%d points are remembered", n)
		}
		time.Sleep(forgive + connectTimeout)
		c.history(id(1 << 20))
		if n := len(c.histories); n != 1 {
			t.Errorf("%d histories after a while", n)
		}
	})
}
