package hsclient

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/linkspec"
)

// slowNet is a network whose circuits fail only when the test says so.
type slowNet struct {
	*fakeNet
	hold chan struct{} // closed: circuits fail
}

func (f slowNet) To(ctx context.Context, t linkspec.Target, s []linkspec.Spec) (OwnedCircuit, error) {
	c, err := f.fakeNet.To(ctx, t, s)
	select {
	case <-f.hold:
	case <-ctx.Done():
	}
	return c, err
}

func onceClient(t *testing.T) (*Client, *fakeNet) {
	f := &fakeNet{}
	c := newClient(t, f)
	c.cfg.Once = true
	return c, f
}

func (f *fakeNet) times() map[ident.RSAID]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[ident.RSAID]int{}
	for _, id := range f.to {
		out[id]++
	}
	f.to = nil
	return out
}

// TestOnce: a directory that was asked for a descriptor is not asked again for a quarter of an hour, unless all were asked in
// vain, or the client got to the service, or has a new identity.
func TestOnce(t *testing.T) {
	s := newService(t)
	synctest.Test(t, func(t *testing.T) {
		c, f := onceClient(t)
		dirs := directories(madeNet(), madeNet().HSTimes(false), s.blinded)
		note := func(from, to int) {
			t.Helper()
			s := c.beginSearch(s.blinded)
			defer c.endSearch(s)
			for _, d := range dirs[from:to] {
				if !c.begin(s, question{s.blinded, d.ID().Ed}, c.epoch) {
					t.Fatal("a directory was asked lately")
				}
				c.answered(s)
			}
		}
		stale := &cached{blinded: s.blinded, inner: &s.inner, revision: 1}
		look := func(what string, stale *cached, want int) {
			t.Helper()
			if _, err := c.descriptor(t.Context(), c.history(s.id), stale); !errors.Is(err, ErrNoDescriptor) {
				t.Fatal(err)
			}
			asked := f.times()
			if len(asked) != want || slices.Max(append(slices.Collect(maps.Values(asked)), 0)) > 1 {
				t.Errorf("%s: %d of %d directories are asked: %v", what, len(asked), want, asked)
			}
		}
		look("at first", nil, 6)
		look("after all were asked in vain", nil, 6)
		note(0, 2)
		look("after two were asked", nil, 4)
		note(4, 6)
		look("for a newer descriptor", stale, 4)
		look("for a newer descriptor, all were asked", stale, 0)
		time.Sleep(requery)
		look("at the end of the time", stale, 0)
		time.Sleep(time.Nanosecond)
		look("after the time", stale, 6)
		c.forgetAsked(s.blinded)
		look("after a success", stale, 6)
		c.NewIdentity()
		look("with a new identity", stale, 6)
		look("for any, though all were asked by those who have gone", nil, 6)
		if len(c.searches) != 0 || len(c.asked) != 0 {
			t.Errorf("%d searches and %d questions are left", len(c.searches), len(c.asked))
		}
		c.cfg.Testing = true
		note(0, 6)
		time.Sleep(requeryTesting + 1)
		note(0, 6)
	})
}

// TestOnceForAll: attempts of several isolation keys that look for one descriptor ask each directory once, and fail together.
func TestOnceForAll(t *testing.T) {
	s := newService(t)
	synctest.Test(t, func(t *testing.T) {
		c, f := onceClient(t)
		n := slowNet{f, make(chan struct{})}
		c.cfg.Network = n
		var wg sync.WaitGroup
		for i := range 9 {
			h := c.historyOf(connKey{s.id, isolation.Key{Stream: uint64(i) + 1}})
			wg.Go(func() {
				if _, err := c.descriptor(t.Context(), h, nil); !errors.Is(err, ErrNoDescriptor) {
					t.Error(err)
				}
			})
		}
		synctest.Wait() // all six are being asked, and three wait
		close(n.hold)
		wg.Wait()
		if asked := f.times(); len(asked) != 6 || slices.Max(slices.Collect(maps.Values(asked))) != 1 {
			t.Errorf("asked: %v", asked)
		}
		if len(c.searches) != 0 {
			t.Errorf("%d searches are left", len(c.searches))
		}
	})
}

// TestOnceFindsOthers: an attempt that finds all directories asked waits for their answers, and has the descriptor that comes.
func TestOnceFindsOthers(t *testing.T) {
	s := newService(t)
	synctest.Test(t, func(t *testing.T) {
		c, f := onceClient(t)
		others := c.beginSearch(s.blinded)
		defer c.endSearch(others)
		dirs := directories(madeNet(), madeNet().HSTimes(false), s.blinded)
		for i, d := range dirs {
			c.begin(others, question{s.blinded, d.ID().Ed}, c.epoch)
			if i > 0 {
				c.answered(others)
			}
		}
		want := &cached{blinded: s.blinded, inner: &s.inner, revision: 2, expires: time.Now().Add(time.Hour)}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if got, err := c.descriptor(t.Context(), c.history(s.id), nil); err != nil || got != want {
				t.Errorf("%v, %v", got, err)
			}
		}()
		synctest.Wait()
		c.keep(want, c.epochNow())
		c.answered(others)
		<-done
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.Sleep(requery + 1)
		c.begin(others, question{s.blinded, dirs[0].ID().Ed}, c.epoch)
		for _, d := range dirs[1:] {
			c.begin(others, question{s.blinded, d.ID().Ed}, c.epoch)
		}
		if _, err := c.descriptor(ctx, c.history(s.id), want); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if n := len(f.times()); n != 0 {
			t.Errorf("%d directories are asked", n)
		}
	})
}
