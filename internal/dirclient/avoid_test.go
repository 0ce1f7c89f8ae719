package dirclient

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/ident"
)

// mutes are caches to which no circuit opens.
type mutes struct {
	mu       sync.Mutex // guards what follows
	asked    []Query
	reported []ident.RelayID
}

func (m *mutes) OpenDir(_ context.Context, q Query) (Stream, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, q)
	return Stream{Cache: cacheID(q.Attempt)}, errors.New("no answer to the first hop")
}

func (m *mutes) ReportDir(cache ident.RelayID, _ Purpose, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.reported = append(m.reported, cache)
	}
}

// TestAvoidCachesWithoutCircuit: a cache to which no circuit opens is avoided by the rest of the
// request, as one that does not answer. A guard is not called unreachable for this, so that
// nothing else keeps a client from it.
func TestAvoidCachesWithoutCircuit(t *testing.T) {
	n := small(t, 3)
	synctest.Test(t, func(t *testing.T) {
		m := &mutes{}
		c := New(Config{Network: n.Network, Dialer: m})
		if err := c.race(t.Context(), Query{Purpose: Consensus}, &request{path: "/"}, func(*response) error { return nil }); err == nil {
			t.Fatal("an answer")
		}
		if len(m.asked) != Attempts || len(m.reported) != Attempts {
			t.Fatalf("%d caches were asked, %d reported", len(m.asked), len(m.reported))
		}
		for i, q := range m.asked {
			for k := range i {
				if !slices.Contains(q.Avoid, cacheID(k)) {
					t.Errorf("attempt %d does not avoid cache %d", i, k)
				}
			}
		}
	})
}
