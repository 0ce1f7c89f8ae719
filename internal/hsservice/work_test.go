package hsservice

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/equix"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hspow"
	"github.com/chivenet/chive/internal/ident"
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
	s.work.checkProof = func(blinded, seed *[32]byte, p *cell.PoW) error {
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
func asksForWork(t testing.TB, n Network, m *account.Memory) (*Service, *point) {
	t.Helper()
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Key: k, Network: n, Memory: m, Live: Live{PoW: &PoW{DefaultPoWRate, DefaultPoWBurst}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	p, err := newPoint(time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.descs = []*descriptor{new(descriptor)}
	p.of = s.descs[0]
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
func openAsked(t *testing.T, s *Service, p *point, cookie byte, exts ...cell.Ext) (*rendRequest, error) {
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
	s.work.checkProof = hspow.Check
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
		if effort, err := s.work.effortOf([]cell.Ext{p.Ext()}, &ident.Ed25519ID{12}, now, s.opening); effort != 5 || err != nil {
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
	b, err := New(Config{Key: a.cfg.Key, Network: nowhere{}, Live: Live{PoW: &PoW{1, 1}}})
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
		if _, err := New(Config{Key: k, Network: nowhere{}, Live: Live{PoW: &p}}); !fault.Is(err, fault.Config) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for name, cfg := range map[string]Config{
		"frontend": {Backends: []ident.Ed25519ID{{1}}},
	} {
		cfg.Key, cfg.Network, cfg.PoW = k, nowhere{}, &PoW{1, 1}
		if _, err := New(cfg); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "proofs of work") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
