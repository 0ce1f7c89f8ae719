package hsservice

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/equix"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hspow"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
)

// A proof that these tests make has one of these as its first byte of the solution.
const (
	proofGood = 1 + iota
	proofWeak // its effort is lower than it claims
	proofBad  // it solves nothing
)

// judged has a service believe these proofs, and counts those whose solution costs time.
func judged(s *Service) (solutions *int) {
	solutions = new(int)
	s.work.proves = func(blinded, seed *[32]byte, p *cell.PoW) error {
		switch {
		case p.Solution[0] == proofWeak:
			return hspow.ErrEffort
		case p.Solution[0] != proofGood || blinded[0] != 12:
			*solutions++
			return equix.ErrSum
		}
		*solutions++
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subcreds, s.blinded = [][32]byte{{1}, {2}}, []ident.Ed25519ID{{11}, {12}}
	return solutions
}

// asksForWork is a service that asks for proofs of work, and one introduction point.
func asksForWork(t testing.TB, n Circuits, m *account.Memory) (*Service, *point) {
	t.Helper()
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Key: k, Circuits: n, Memory: m, Live: Live{PoW: &PoW{DefaultPoWRate, DefaultPoWBurst}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	p, err := newPoint(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.points = append(s.points, p)
	s.mu.Unlock()
	judged(s)
	return s, p
}

// proof is one for the present seed.
func proof(s *Service, nonce byte, effort uint32, solution byte) cell.PoW {
	seed := s.work.schedule.At(time.Now())
	return cell.PoW{Nonce: [16]byte{nonce}, Effort: effort, SeedHead: [4]byte(seed.Value[:4]), Solution: [16]byte{solution}}
}

// openAsked opens an introduction with a proof.
func openAsked(t *testing.T, s *Service, p *point, cookie byte, exts ...cell.Ext) (*meeting, error) {
	t.Helper()
	a := ask()
	a.cookie, a.exts = cookie, exts
	return s.open(p, a.message(t, p), time.Now())
}

// TestProofs: a proof is worth its effort once, and only if all of it is right. What is
// wrong is counted by its reason, and costs no more than it must.
func TestProofs(t *testing.T) {
	s, p := asksForWork(t, nowhere{}, nil)
	solutions := judged(s)
	now := time.Now()
	present := s.work.schedule.At(now)
	of := func(n int64, nonce byte) cell.PoW {
		at := present.From
		for ; n < 0; n++ {
			at = s.work.schedule.At(at.Add(-1)).From
		}
		seed := s.work.schedule.At(at)
		return cell.PoW{Nonce: [16]byte{nonce}, Effort: 5, SeedHead: [4]byte(seed.Value[:4]), Solution: [16]byte{proofGood}}
	}
	good, again, weak, bad := proof(s, 1, 5, proofGood), proof(s, 1, 6, proofGood), proof(s, 2, 5, proofWeak), proof(s, 3, 5, proofBad)
	before, old := of(-1, 4), of(-2, 5)
	alien := proof(s, 6, 5, proofGood)
	alien.SeedHead[0]++
	none := cell.PoW{SeedHead: [4]byte{9}} // effort 0 is none, whatever else it says
	version := good.Ext()
	version.Body[0] = 2
	cookie := byte(0)
	for _, c := range []struct {
		name   string
		ext    cell.Ext
		effort uint32
		why    refusal // refusals: it is accepted
		solved int
	}{
		{"good", good.Ext(), 5, refusals, 1},
		{"its nonce again", again.Ext(), 0, refusedReplay, 0},
		{"weak", weak.Ext(), 0, refusedEffort, 0},
		{"bad", bad.Ext(), 0, refusedSolution, 1},
		{"for the seed before", before.Ext(), 5, refusals, 1},
		{"for the seed before, again", before.Ext(), 0, refusedReplay, 0},
		{"for an old seed", old.Ext(), 0, refusedSeed, 0},
		{"for no seed", alien.Ext(), 0, refusedSeed, 0},
		{"without effort", none.Ext(), 0, refusals, 0},
		{"of another version", version, 0, refusedForm, 0},
		{"cut", cell.Ext{Type: cell.ExtPoW, Body: good.Ext().Body[:40]}, 0, refusedForm, 0},
		{"empty", cell.Ext{Type: cell.ExtPoW}, 0, refusedForm, 0},
	} {
		cookie++
		*solutions = 0
		var counted [refusals]uint64
		for i := range counted {
			counted[i] = s.work.refused[i].Load()
		}
		m, err := openAsked(t, s, p, cookie, c.ext)
		switch {
		case c.why == refusals && (err != nil || m.effort != c.effort):
			t.Errorf("%s: %+v, %v", c.name, m, err)
		case c.why != refusals && (!fault.Is(err, fault.Protocol) || s.work.refused[c.why].Load() != counted[c.why]+1):
			t.Errorf("%s: %v, counted %d", c.name, err, s.work.refused[c.why].Load()-counted[c.why])
		case *solutions != c.solved:
			t.Errorf("%s: %d solutions were checked", c.name, *solutions)
		}
	}
	if n := s.work.verified.Load(); n != 2 {
		t.Errorf("%d are counted as good", n)
	}
	// A proof for one period's key is nothing in an introduction for the other one's.
	a := ask()
	other := proof(s, 7, 5, proofGood)
	a.cookie, a.subcred, a.exts = 99, [32]byte{1}, []cell.Ext{other.Ext()}
	if _, err := s.open(p, a.message(t, p), now); err == nil {
		t.Error("a proof for another key is accepted")
	}
	// And a frontend's clients have no key of this service.
	s.mu.Lock()
	s.blinded = s.blinded[:1]
	s.mu.Unlock()
	frontend := proof(s, 8, 5, proofGood)
	if _, err := openAsked(t, s, p, 100, frontend.Ext()); !errors.Is(err, hspow.ErrSeed) {
		t.Errorf("a frontend's client: %v", err)
	}
}

// TestSolvedProof: a proof that a client makes is accepted.
func TestSolvedProof(t *testing.T) {
	s, p := asksForWork(t, nowhere{}, nil)
	s.work.proves = hspow.Check
	seed := s.work.offer(nil, 0, time.Now())
	made, _, err := hspow.NewSolver().Solve(t.Context(), new([16]byte), &hspow.Params{Blinded: [32]byte{12}, Seed: seed.Seed, Effort: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	lie := made
	lie.Effort = 1 << 30
	if _, err := openAsked(t, s, p, 1, lie.Ext()); !errors.Is(err, hspow.ErrEffort) {
		t.Errorf("a lie about the effort: %v", err)
	}
	if m, err := openAsked(t, s, p, 2, made.Ext()); err != nil || m.effort != 2 {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestProofsOff: a service that asks for no proofs ignores them.
func TestProofsOff(t *testing.T) {
	s, p := hosted(t, nowhere{})
	judged(s)
	if m, err := openAsked(t, s, p, 1, cell.Ext{Type: cell.ExtPoW, Body: []byte("nonsense")}); err != nil || m.effort != 0 {
		t.Errorf("%+v, %v", m, err)
	}
	if s.Status().PoW != nil || s.work.offer(nil, 0, time.Now()) != nil {
		t.Error("the status or the descriptor tells of proofs")
	}
}

// TestSpentProofsGo: the memory of proofs ends with their seeds, and with the service.
func TestSpentProofsGo(t *testing.T) {
	m := account.New(1 << 30)
	s, _ := asksForWork(t, nowhere{}, m)
	now := time.Now()
	for n := range byte(5) {
		pow := s.work.schedule.At(now)
		p := cell.PoW{Nonce: [16]byte{n}, Effort: 5, SeedHead: [4]byte(pow.Value[:4]), Solution: [16]byte{proofGood}}
		if effort, err := s.work.prove([]cell.Ext{p.Ext()}, &ident.Ed25519ID{12}, now, s.opening); effort != 5 || err != nil {
			t.Fatalf("%d, %v", effort, err)
		}
		now = pow.Until
		s.work.tend(now)
		if len(s.work.spent) > 2 {
			t.Errorf("proofs for %d seeds are kept", len(s.work.spent))
		}
	}
	if m.Used() == 0 {
		t.Error("nothing is counted")
	}
	s.Close()
	s.Close()
	if m.Used() != 0 {
		t.Errorf("%d bytes are left", m.Used())
	}
}

// TestWorkOffer: the descriptor changes with the seed, and when the effort moves by more
// than 15 percent.
func TestWorkOffer(t *testing.T) {
	s, _ := asksForWork(t, nowhere{}, nil)
	now := time.Now()
	first := s.work.offer(nil, 0, now)
	if first == nil || first.Effort != 0 || !first.Expires.After(now) || first.Expires.Sub(now) > 2*time.Hour {
		t.Fatalf("%+v", first)
	}
	if s.work.offer(first, 0, now) != first {
		t.Error("it changes without a reason")
	}
	next := s.work.offer(first, 0, first.Expires)
	if next == first || next.Seed == first.Seed || !next.Expires.After(first.Expires) {
		t.Errorf("%+v after %+v", next, first)
	}
	for _, c := range []struct {
		before, now uint32
		near        bool
	}{{0, 0, true}, {0, 1, false}, {1, 0, false}, {100, 115, true}, {100, 116, false}, {100, 85, true}, {100, 84, false}, {1<<32 - 1, 1, false}, {1, 1<<32 - 1, false}} {
		if near(c.before, c.now) != c.near {
			t.Errorf("%d and %d: %v", c.before, c.now, !c.near)
		}
	}
	if offerText(first) == offerText(next) || offerText(nil) == offerText(first) {
		t.Error("two offers have the same text")
	}
	s.work.set(nil)
	if s.work.offer(first, 0, now) != nil {
		t.Error("it goes on when it is turned off")
	}
}

// TestSeedsOfHosts: two services with one key offer the same seed, and a start does not
// change it.
func TestSeedsOfHosts(t *testing.T) {
	a, _ := asksForWork(t, nowhere{}, nil)
	b, err := New(Config{Key: a.cfg.Key, Circuits: nowhere{}, Live: Live{PoW: &PoW{1, 1}}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	now := time.Now()
	if x, y := a.work.offer(nil, 0, now), b.work.offer(nil, 0, now); *x != *y {
		t.Errorf("%+v and %+v", x, y)
	}
}

// TestWorkRefused: what cannot be done is refused at the start.
func TestWorkRefused(t *testing.T) {
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []PoW{{}, {Rate: 2, Burst: 1}, {Rate: -1, Burst: 1}, {Rate: 1, Burst: 1 << 31}} {
		if _, err := New(Config{Key: k, Circuits: nowhere{}, Live: Live{PoW: &p}}); !fault.Is(err, fault.Config) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for name, cfg := range map[string]Config{
		"frontend": {Backends: []ident.Ed25519ID{{1}}},
	} {
		cfg.Key, cfg.Circuits, cfg.PoW = k, nowhere{}, &PoW{1, 1}
		if _, err := New(cfg); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "proofs of work") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWorkOrder: the greatest effort is answered first, at the rate that is set, and what
// has waited for 15 seconds not at all.
func TestWorkOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := make(chan linkspec.Target, 1000)
		s, p := asksForWork(t, nowhere{calls: calls}, nil)
		s.work.set(&PoW{Rate: 1, Burst: 1})
		introduce := func(cookie byte, effort uint32) {
			a := ask()
			a.cookie, a.onion = cookie, ident.X25519Key{cookie}
			if effort > 0 {
				w := proof(s, cookie, effort, proofGood)
				a.exts = []cell.Ext{w.Ext()}
			}
			if err := s.introduced(p, nil, a.message(t, p)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		introduce(255, 0) // it gets the first place
		for i := range byte(20) {
			introduce(1+i, uint32(i*7%20)) // each effort from 0 to 19 once
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		s.Close()
		close(calls)
		var got []uint32
		for c := range calls {
			if e := uint32(c.Ntor[0]-1) * 7 % 20; c.Ntor[0] != 255 && !slices.Contains(got, e) { // each is tried twice
				got = append(got, e)
			}
		}
		want := []uint32{19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5}
		if len(got) < 14 || !slices.Equal(got, want[:len(got)]) {
			t.Errorf("the order is %v", got)
		}
	})
}

// TestCheapWait: while 16 rendezvous are under way, clients that did less than was suggested
// wait, and others do not.
func TestCheapWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := make(chan linkspec.Target, 1000)
		s, p := asksForWork(t, silent{nowhere{calls: calls}}, nil)
		for range 100 {
			s.work.control.Came(1000)
		}
		s.work.control.Served(true)
		s.work.control.Update(time.Now(), 1000, false)
		s.work.control.Update(time.Now().Add(hspow.ControlEvery), 1000, false)
		suggested := s.work.control.Suggested()
		if suggested != hspow.MaxSuggested {
			t.Fatalf("effort %d", suggested)
		}
		cookie := byte(0)
		introduce := func(effort uint32) {
			cookie++
			a := ask()
			a.cookie = cookie
			w := proof(s, cookie, effort, proofGood)
			a.exts = []cell.Ext{w.Ext()}
			if err := s.introduced(p, nil, a.message(t, p)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for range 2 * maxCheap {
			introduce(1)
		}
		if n := len(calls); n != maxCheap {
			t.Errorf("%d cheap ones are under way", n)
		}
		for range maxCheap {
			introduce(suggested)
		}
		if n := len(calls); n != 2*maxCheap {
			t.Errorf("%d are under way", n)
		}
		s.Close()
	})
}

// TestWorkedPlaces: those with a proof have places of their own, a greater effort takes the
// place of the least one, and those without a proof take none of these places.
func TestWorkedPlaces(t *testing.T) {
	s, a := hosted(t, nowhere{})
	now := time.Now()
	fill := func(effort uint32) (n int) {
		for ; n < 1000; n++ {
			if _, _, err := s.begin(wish{through: a, effort: effort}, now); err != nil {
				break
			}
		}
		return n
	}
	if n := fill(0); n != maxRendezvous {
		t.Errorf("%d without a proof", n)
	}
	if n := fill(5); n != maxWorked {
		t.Errorf("%d with a proof", n)
	}
	if n := fill(4); n != 0 {
		t.Errorf("%d with less", n)
	}
	if n := fill(6); n != maxWorked {
		t.Errorf("%d with more", n)
	}
	without := 0
	for _, u := range s.meeting {
		if u.effort == 0 {
			without++
		}
	}
	if without != maxRendezvous || len(s.meeting) != maxRendezvous+maxWorked {
		t.Errorf("%d without a proof, of %d", without, len(s.meeting))
	}
	now = now.Add(rendPatience) // whatever their effort
	if n := fill(1); n != maxWorked {
		t.Errorf("%d after a while", n)
	}
	if len(s.meeting) != maxRendezvous+maxWorked {
		t.Errorf("%d are under way", len(s.meeting))
	}
}

// TestWorkEnds: whatever waits, the end of the service, of the option, and of a point leave
// nothing behind.
func TestWorkEnds(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *Service, *point){
		"closed": func(_ *testing.T, s *Service, _ *point) { s.Close() },
		"turned off": func(t *testing.T, s *Service, _ *point) {
			if err := s.Reload(Live{}); err != nil {
				t.Fatal(err)
			}
		},
		"its point is gone": func(_ *testing.T, s *Service, p *point) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.removeLocked(p)
		},
		"its circuit's account is closed": func(*testing.T, *Service, *point) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := account.New(1 << 30)
				on := m.Address(netip.Addr{}).Open(account.Circuit, nil)
				w := &world{reached: map[ident.RSAID]time.Time{}}
				s, p := asksForWork(t, w, m)
				s.work.set(&PoW{Rate: 1, Burst: 1})
				f := newFlooder(t, p, pointSilent)
				f.proof = func(pow *cell.PoW) {
					seed := s.work.schedule.At(time.Now())
					pow.Effort, pow.SeedHead, pow.Solution[0] = 1+uint32(f.n%3), [4]byte(seed.Value[:4]), proofGood
				}
				for range 2 * maxOpened {
					body, _ := f.introduction()
					if err := s.introduced(p, on, body); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				if st := s.Status().PoW; st.Waiting == 0 || st.Waiting > maxOpened {
					t.Fatalf("%+v", st)
				}
				if used := on.Used(); used > maxOpened*openedCost+maxWaiting*1000 {
					t.Errorf("%d bytes are counted", used)
				}
				end(t, s, p)
				time.Sleep(time.Minute)
				synctest.Wait()
				if name != "closed" {
					if n, _, _ := s.work.queue.state(); n != 0 || on.Used() != 0 {
						t.Errorf("%d wait after a minute, %d bytes are counted", n, on.Used())
					}
				}
				on.Close()
				s.Close()
				if m.Used() != 0 {
					t.Errorf("%d bytes are left", m.Used())
				}
			})
		})
	}
}
