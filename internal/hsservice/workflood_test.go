package hsservice

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/hspow"
	"github.com/chivenet/chive/internal/ident"
)

// TestWorkUnderFlood: attackers send up to 10,000 introductions a second through all introduction
// points. Clients with a proof are met as if there were no flood, as long as all
// introductions can be opened, and otherwise a part of them, by chance; what is checked of
// rubbish has a budget; and the suggested effort follows.
func TestWorkUnderFlood(t *testing.T) {
	long(t)
	for name, c := range map[string]struct {
		rate   int // introductions a second
		proof  byte
		effort uint32
		all    bool // all clients are met
	}{
		"without proofs":                       {2000, 0, 0, true},
		"without proofs, many":                 {10000, 0, 0, true},
		"weak proofs":                          {2000, proofWeak, 1 << 31, true},
		"proofs that solve nothing":            {2000, proofBad, 1, true},
		"proofs that solve nothing, many":      {10000, proofBad, 1, false},
		"proofs of a little effort":            {2000, proofGood, 1, true},
		"proofs of a little effort, many":      {10000, proofGood, 1, false},
		"proofs for a seed that is none, many": {10000, 77, 1000, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { workFlood(t, c.rate, c.proof, c.effort, c.all) })
		})
	}
}

func workFlood(t *testing.T, perSecond int, kind byte, effort uint32, all bool) {
	const seconds, honest = 4, 50
	const tick = 10 * time.Millisecond
	w := &world{reached: map[ident.RSAID]time.Time{}}
	s, _ := asksForWork(t, w, nil)
	defer s.Close()
	solutions := judged(s)
	var points [3]*point
	var attackers, clients [3]*flooder
	of := func(kind byte, effort uint32) func(*cell.PoW) {
		return func(p *cell.PoW) {
			seed := s.work.schedule.At(time.Now())
			p.Effort, p.SeedHead, p.Solution[0] = effort, [4]byte(seed.Value[:4]), kind
			if kind == 77 {
				p.SeedHead[1]++
			}
		}
	}
	for j := range points {
		var err error
		if points[j], err = newPoint(time.Now(), nil); err != nil {
			t.Fatal(err)
		}
		attackers[j], clients[j] = newFlooder(t, points[j], pointSilent), newFlooder(t, points[j], pointMeets)
		if clients[j].proof = of(proofGood, 20); kind != 0 {
			attackers[j].proof = of(kind, effort)
		}
	}
	life := points[0].introsLeft
	send := func(j int, body []byte) {
		if err := s.queueIntroduce2(points[j], nil, body); err != nil {
			t.Fatal(err)
		}
	}
	asked := map[ident.RSAID]time.Time{}
	perTick, ticks := perSecond/int(time.Second/tick), int(seconds*time.Second/tick)
	for i := range ticks {
		for n := range perTick {
			body, _ := attackers[n%3].introduction()
			send(n%3, body)
			if i%(int(time.Second/tick)/honest) == 0 && n == i%perTick {
				body, id := clients[i%3].introduction()
				asked[id] = time.Now()
				send(i%3, body)
			}
		}
		time.Sleep(tick) // virtual
	}
	time.Sleep(5 * time.Second)
	w.mu.Lock()
	met := 0
	for id, since := range asked {
		if r := w.reached[id]; !r.IsZero() && r.Sub(since) <= 5*time.Second {
			met++
		}
	}
	w.mu.Unlock()
	st := s.Status().PoW
	t.Logf("%d of %d clients are met within 5 s; %d solutions checked, %d proofs accepted", met, len(asked), *solutions, st.Verified)
	if all && met < len(asked) || 5*met < len(asked) {
		t.Error("the flood keeps clients out")
	}
	if most := openBurst + (seconds+5)*openRateWork; *solutions > most {
		t.Errorf("%d solutions were checked", *solutions)
	}
	s.mu.Lock()
	used := life - points[0].introsLeft
	n := len(points[0].replayed.seen)
	s.mu.Unlock()
	if used > seconds*1000 || n != used {
		t.Errorf("%d introductions count against the life of a point, and %d are remembered", used, n)
	}
	s.work.tend(time.Now())
	s.work.tend(time.Now().Add(hspow.ControlEvery))
}

// TestEffortFollows: under a flood that takes all the service can give, the suggested effort
// grows, and it shrinks to nothing when the flood is over.
func TestEffortFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{reached: map[ident.RSAID]time.Time{}}
		s, p := asksForWork(t, w, nil)
		defer s.Close()
		f := newFlooder(t, p, pointBusy)
		effort := uint32(30)
		f.proof = func(pow *cell.PoW) {
			seed := s.work.schedule.At(time.Now())
			pow.Effort, pow.SeedHead, pow.Solution[0] = effort, [4]byte(seed.Value[:4]), proofGood
		}
		s.work.set(&PoW{Rate: 10, Burst: 10})
		s.work.tend(time.Now())
		for range 320 { // seconds
			for range 20 {
				body, _ := f.introduction()
				if err := s.queueIntroduce2(p, nil, body); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			s.work.tend(time.Now())
		}
		st := s.Status().PoW
		if st.Suggested < effort {
			t.Errorf("%+v", st)
		}
		for range 20 {
			time.Sleep(hspow.ControlEvery)
			s.work.tend(time.Now())
		}
		if st := s.Status().PoW; st.Suggested != 0 || st.Waiting != 0 {
			t.Errorf("after the flood: %+v", st)
		}
	})
}
