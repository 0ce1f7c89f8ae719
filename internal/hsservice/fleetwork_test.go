package hsservice

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/hsfleet"
	"github.com/chivenet/chive/internal/hspow"
	"github.com/chivenet/chive/internal/netdoc"
)

// works is what the directories say of proofs of work.
func (h *shelf) works(t *testing.T, k *Key) (all []*netdoc.HSPoW) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range periodsOf(h.dir, false) {
		x, err := newDescriptor(k, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range p.directories(h.dir, x.keys.Blinded.Public()) {
			d := h.docs[dir.ID().Ed][x.keys.Blinded.Public()]
			if d == nil {
				t.Fatal("a directory has no descriptor")
			}
			in, err := d.Open(x.keys.Subcredential, nil)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, in.PoW)
		}
	}
	return all
}

// demand has a host suggest an effort, soon.
func demand(s *Service, effort uint32) {
	s.work.noteEffort(effort)
	s.work.mu.Lock()
	defer s.work.mu.Unlock()
	s.work.control.Served(true)
	s.work.control.Lost(effort)
}

// TestFleetWork: the hosts of a fleet offer one seed, which changes in its time, and the
// greatest of the efforts that they would ask for. They do not publish more often than
// they must.
func TestFleetWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, k := newShelf(t), key(t)
		cfg := Config{Key: k, Fleet: true, Live: Live{PoW: &PoW{DefaultPoWRate, DefaultPoWBurst}}}
		a, b := h.join(t, cfg, 3), h.join(t, cfg, 3)
		check := func(what string, least, most uint32) {
			t.Helper()
			synctest.Wait()
			h.expect(t, what, k, a, b)
			now := time.Now()
			for _, pow := range h.works(t, k) {
				switch seed := a.work.schedule.At(now.Add(-3 * time.Minute)); {
				case pow == nil || pow.Seed != seed.Value && pow.Seed != a.work.schedule.At(now).Value:
					t.Fatalf("%s: %+v, and the seed is %+v", what, pow, seed)
				case pow.Effort < least || pow.Effort > most:
					t.Fatalf("%s: effort %d", what, pow.Effort)
				}
			}
		}
		time.Sleep(4 * time.Minute)
		check("at the start", 0, 0)
		demand(b, 900)
		time.Sleep(hspow.ControlEvery)
		check("B is under a flood", 600, 900)
		if a.Status().PoW.Suggested != 0 {
			t.Error("the other host is under none")
		}
		demand(a, 2000)
		time.Sleep(hspow.ControlEvery)
		check("both are", 1200, 2000)
		time.Sleep(2 * time.Hour)
		check("it is over", 0, 0)
		h.published()
		for range 8 {
			time.Sleep(30 * time.Minute)
			check("later", 0, 0)
		}
		per := float64(h.published()) / 8 // four hours, two hosts
		t.Logf("%.0f uploads an hour and host", per)
		if most := 1.5 * 16 * float64(time.Hour/hsfleet.RefreshMin); per > most {
			t.Errorf("%.0f uploads an hour and host, more than %.0f", per, most)
		}
		kill(a)
		kill(b)
	})
}

// TestServiceWork: a service that is no fleet publishes again when its seed and its effort
// change, for both periods, and when it is told to ask for no proofs any more.
func TestServiceWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, k := newShelf(t), key(t)
		live := Live{PoW: &PoW{DefaultPoWRate, DefaultPoWBurst}, IntroductionPoints: 3}
		s := h.join(t, Config{Key: k, Live: live}, 3)
		time.Sleep(time.Until(s.work.schedule.At(time.Now()).Until) + time.Minute)
		synctest.Wait()
		now := s.work.schedule.At(time.Now())
		h.published()
		all := func(what string, ok func(*netdoc.HSPoW) bool) {
			t.Helper()
			synctest.Wait()
			for _, pow := range h.works(t, k) {
				if !ok(pow) {
					t.Fatalf("%s: %+v", what, pow)
				}
			}
		}
		all("at the start", func(p *netdoc.HSPoW) bool {
			return *p == netdoc.HSPoW{Seed: now.Value, Expires: now.Until.UTC()}
		})
		demand(s, 100)
		time.Sleep(hspow.ControlEvery)
		all("an effort", func(p *netdoc.HSPoW) bool { return p.Effort == 100 && p.Seed == now.Value })
		time.Sleep(time.Until(now.Until) + 20*time.Second) // and the time of the uploads
		next := s.work.schedule.At(time.Now())
		all("a new seed", func(p *netdoc.HSPoW) bool { return p.Seed == next.Value && p.Expires.Equal(next.Until) })
		if err := s.Reload(Live{IntroductionPoints: 3}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		all("turned off", func(p *netdoc.HSPoW) bool { return p == nil })
		if err := s.Reload(live); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		all("turned on", func(p *netdoc.HSPoW) bool { return p != nil && p.Effort == 0 && p.Seed == next.Value })
		kill(s)
	})
}
