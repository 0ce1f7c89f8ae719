package guard

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
)

// checkSet asserts what holds for a set at any time.
func checkSet(t testing.TB, s *set) {
	t.Helper()
	seen := map[ident.RSAID]bool{}
	confirmed := 0
	for _, g := range s.sample {
		if seen[g.id.RSA] {
			t.Fatal("a guard is in the sample twice")
		}
		seen[g.id.RSA] = true
		if g.gone {
			t.Fatal("a removed guard is in the sample")
		}
		if g.isConfirmed() {
			confirmed++
		}
		if g.primary != slices.Contains(s.primary, g) {
			t.Fatal("the primary flag and the primary list differ")
		}
		if g.listed != g.unlistedSince.IsZero() {
			t.Fatal("a listed guard has a date of being unlisted, or the reverse")
		}
	}
	inOrder := func(list []*sampled) bool {
		return slices.IsSortedFunc(list, func(a, b *sampled) int { return slices.Index(s.sample, a) - slices.Index(s.sample, b) })
	}
	if !inOrder(s.confirmed) || !inOrder(s.primary) {
		t.Fatal("the confirmed or the primary guards are not in sample order")
	}
	unused := slices.ContainsFunc(s.primary, func(g *sampled) bool { return !g.isConfirmed() })
	for _, g := range s.confirmed {
		if !g.isConfirmed() || !slices.Contains(s.sample, g) {
			t.Fatal("the confirmed list holds a guard that is not confirmed, or not sampled")
		}
		if unused && g.filtered && !g.primary {
			t.Fatal("an unconfirmed guard is primary in place of a confirmed one")
		}
	}
	if confirmed != len(s.confirmed) {
		t.Fatal("a confirmed guard is not in the confirmed list, or twice")
	}
	for _, g := range s.primary {
		if !g.filtered || !slices.Contains(s.sample, g) {
			t.Fatal("a primary guard is not a usable member of the sample")
		}
	}
}

func check(t testing.TB, m *Manager) {
	t.Helper()
	pending := map[*sampled]int{}
	for _, u := range m.uses {
		if u.state == usableIfNoBetter {
			pending[u.g]++
		}
		if u.state == dead {
			t.Fatal("a dead use is kept")
		}
	}
	for _, s := range m.sets {
		checkSet(t, s)
		if len(s.primary) > m.p.Primary {
			t.Fatal("too many primary guards")
		}
		for _, g := range s.sample {
			if g.pending != pending[g] {
				t.Fatalf("%d pending, not %d", g.pending, pending[g])
			}
		}
	}
}

// TestRandomLife does anything in any order, for years, with restarts.
func TestRandomLife(t *testing.T) {
	runs := uint64(40)
	if testing.Short() {
		runs = 10
	}
	for seed := range runs {
		rnd := rand.New(rand.NewPCG(seed, 7))
		store := &MemStore{}
		m, err := New(config(seed), store, epoch)
		if err != nil {
			t.Fatal(err)
		}
		d := network(20 + rnd.IntN(400))
		now := epoch
		var live []*Use
		limit := 0
		for range 600 {
			now = now.Add(time.Duration(rnd.ExpFloat64() * float64([]time.Duration{time.Second, time.Hour, 3 * day}[rnd.IntN(3)])))
			switch rnd.IntN(12) {
			case 0:
				e := d.without(now)
				e.relays = slices.DeleteFunc(e.relays, func(Candidate) bool { return rnd.IntN(10) == 0 })
				limit = max(limit, m.p.maxSize(len(e.relays)))
				m.Update(e, now)
			case 1:
				mod := byte(1 + rnd.IntN(20))
				m.SetFilter(Filter{Exclude: func(c Candidate) bool { return c.ID.RSA[3]%mod == 1 }}, now)
			case 2:
				m.Tick(now)
			case 3:
				if err := m.Save(); err != nil {
					t.Fatal(err)
				}
				for _, u := range live {
					u.Cancelled(now)
				}
				live = nil
				if m, err = New(config(seed^uint64(now.Unix())), store, now); err != nil {
					t.Fatalf("what was saved is refused: %v", err)
				}
			case 4, 5, 6, 7:
				req := Request{Purpose: Purpose(rnd.IntN(2))}
				if mod := byte(2 + rnd.IntN(5)); rnd.IntN(2) == 0 {
					req.Allow = func(c Candidate) bool { return c.ID.RSA[3]%mod != 0 }
				}
				u, err := m.Pick(req, now)
				if err != nil {
					continue
				}
				if !u.g.filtered || req.Allow != nil && !req.Allow(u.Guard()) {
					t.Fatal("a guard was picked that is not allowed")
				}
				live = append(live, u)
			default:
				if len(live) == 0 {
					continue
				}
				i := rnd.IntN(len(live))
				u := live[i]
				switch rnd.IntN(5) {
				case 0:
					u.Failed(now, Failure(rnd.IntN(2)))
				case 1:
					u.Extended()
				case 2:
					u.Cancelled(now)
				case 3:
					if u.Succeeded(now) != Discard {
						u.StreamTried()
						continue
					}
				case 4:
					u.Closed(now, rnd.IntN(2) == 0)
				}
				live = slices.Delete(live, i, i+1)
			}
			check(t, m)
			for _, s := range m.sets {
				if len(s.sample) > max(limit, 20) {
					t.Fatalf("seed %d: %d sampled, over %d", seed, len(s.sample), limit)
				}
			}
		}
	}
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	d := network(300)
	m := start(t, d)
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for i := range 100 {
				now := epoch.Add(time.Duration(i) * time.Second)
				u, err := m.Pick(Request{}, now)
				if err != nil {
					t.Error(err)
					return
				}
				switch (i + w) % 4 {
				case 0:
					u.Failed(now, Unreachable)
				case 1:
					u.Extended()
					u.Succeeded(now)
					u.StreamTried()
					u.Closed(now, true)
				case 2:
					u.Cancelled(now)
				case 3:
					m.Tick(now)
					m.Status(now)
					m.Update(d, now)
					if err := m.Save(); err != nil {
						t.Error(err)
					}
					u.Closed(now, false)
				}
			}
		})
	}
	wg.Wait()
	check(t, m)
	if len(m.uses) != 0 {
		t.Fatalf("%d uses are left", len(m.uses))
	}
}

// TestOnlyPrimariesWhileTheyWork asks how many guards a client can be made to use by a path
// that forbids guards at will while all guards work: three.
func TestOnlyPrimariesWhileTheyWork(t *testing.T) {
	m := start(t, network(1000))
	rnd := rand.New(rand.NewPCG(1, 1))
	seen := map[ident.RelayID]bool{}
	for i := range 2000 {
		now := epoch.Add(time.Duration(i) * time.Minute)
		bad := m.cur.primary[rnd.IntN(3)].id
		u := pickFor(t, m, Request{Allow: func(c Candidate) bool { return c.ID != bad }, Purpose: Purpose(i % 2)}, now)
		seen[u.Guard().ID] = true
		u.Succeeded(now)
		u.Closed(now, true)
	}
	if len(seen) > 3 {
		t.Fatalf("%d guards were used in a working network", len(seen))
	}
}

func BenchmarkPick(b *testing.B) {
	m := start(b, network(4000))
	b.ReportAllocs()
	for b.Loop() {
		u, err := m.Pick(Request{}, epoch)
		if err != nil {
			b.Fatal(err)
		}
		u.Succeeded(epoch)
		u.Closed(epoch, true)
	}
}

func BenchmarkUpdate(b *testing.B) {
	d := network(4000)
	m := start(b, d)
	b.ReportAllocs()
	for b.Loop() {
		m.Update(d, epoch)
	}
}
