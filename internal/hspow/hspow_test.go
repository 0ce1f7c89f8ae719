package hspow

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/equix"
	"github.com/chivenet/chive/internal/fault"
)

// vector is a proof of C tor's: the solver starts at start and finds it.
type vector struct {
	Effort                                uint32
	Start, Seed, Blinded, Nonce, Solution string
}

func (v *vector) params(t *testing.T) Params {
	return Params{[32]byte(unhex(t, v.Blinded)), [32]byte(unhex(t, v.Seed)), v.Effort}
}

func (v *vector) proof(t *testing.T) cell.PoW {
	return cell.PoW{Nonce: [16]byte(unhex(t, v.Nonce)), Effort: v.Effort, SeedHead: [4]byte(unhex(t, v.Seed)[:4]), Solution: [16]byte(unhex(t, v.Solution))}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func vectors(t *testing.T) []vector {
	t.Helper()
	b, err := os.ReadFile("testdata/ctor.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors []vector }
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) < 19 {
		t.Fatalf("%d vectors", len(file.Vectors))
	}
	return file.Vectors
}

func TestChallenge(t *testing.T) {
	var blinded, seed [32]byte
	var nonce [16]byte
	blinded[0], seed[31], nonce[15] = 1, 2, 3
	b := Challenge([]byte("x"), &blinded, &seed, &nonce, 0x01020304)
	const want = "78" + "546f7220687320696e74726f20763100" +
		"0100000000000000000000000000000000000000000000000000000000000000" +
		"0000000000000000000000000000000000000000000000000000000000000002" +
		"00000000000000000000000000000003" + "01020304"
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("%s", got)
	}
	if len(b) != 1+ChallengeLen || ChallengeLen != 100 {
		t.Errorf("%d bytes", len(b))
	}
}

// The vectors' hashes are as small as their efforts ask; a changed proof of a high effort
// is refused before Equi-X runs.
func TestEffort(t *testing.T) {
	for _, v := range vectors(t) {
		p, params := v.proof(t), v.params(t)
		if !reaches(newHash(), Challenge(nil, &params.Blinded, &params.Seed, &p.Nonce, p.Effort), &p.Solution, p.Effort) {
			t.Errorf("effort %d, nonce %s: refused", v.Effort, v.Nonce)
		}
		if v.Effort < 10000 {
			continue
		}
		for i := range 16 {
			wrong := p
			wrong.Nonce[i] ^= 1
			if err := Check(&params.Blinded, &params.Seed, &wrong); !errors.Is(err, ErrEffort) || !fault.Is(err, fault.Protocol) {
				t.Errorf("effort %d, another nonce: %v", v.Effort, err)
			}
			wrong = p
			wrong.Solution[i] ^= 1
			if err := Check(&params.Blinded, &params.Seed, &wrong); !errors.Is(err, ErrEffort) {
				t.Errorf("effort %d, another solution: %v", v.Effort, err)
			}
		}
		p.Effort++
		if err := Check(&params.Blinded, &params.Seed, &p); !errors.Is(err, ErrEffort) {
			t.Errorf("effort %d, one more claimed: %v", v.Effort, err)
		}
	}
}

func TestAnotherSeed(t *testing.T) {
	v := vectors(t)[0]
	p, params := v.proof(t), v.params(t)
	p.SeedHead[3]++
	if err := Check(&params.Blinded, &params.Seed, &p); !errors.Is(err, ErrSeed) {
		t.Error(err)
	}
}

// C tor's proofs are good, and a changed solution is not one of Equi-X.
func TestCheckVectors(t *testing.T) {
	for _, v := range vectors(t) {
		p, params := v.proof(t), v.params(t)
		if err := Check(&params.Blinded, &params.Seed, &p); err != nil {
			t.Errorf("effort %d, nonce %s: %v", v.Effort, v.Nonce, err)
		}
		if v.Effort > 0 {
			continue // its changed solutions lack effort
		}
		for i := range p.Solution {
			wrong := p
			wrong.Solution[i] ^= 1
			if err := Check(&params.Blinded, &params.Seed, &wrong); !errors.Is(err, equix.ErrOrder) && !errors.Is(err, equix.ErrSum) {
				t.Errorf("byte %d changed: %v", i, err)
			}
		}
	}
}

// From C tor's first nonce, the solver finds C tor's proof.
func TestSolveVectors(t *testing.T) {
	s := NewSolver()
	for _, v := range vectors(t) {
		params := v.params(t)
		start := [16]byte(unhex(t, v.Start))
		got, _, err := s.Solve(t.Context(), &start, &params, nil)
		if want := v.proof(t); err != nil || got != want {
			t.Errorf("effort %d, start %s: %x, %v", v.Effort, v.Start, got, err)
		}
	}
}

func TestSolve(t *testing.T) {
	params := Params{Blinded: [32]byte{1}, Seed: [32]byte{2}, Effort: 5}
	// Each nonce in a turn of its own.
	nonce, s := [16]byte{0: 0xff, 1: 0xff, 2: 6}, NewSolver()
	var p cell.PoW
	for done := false; !done; {
		before := nonce
		var err error
		if p, done, err = s.Solve(t.Context(), &nonce, &params, func() bool { return true }); err != nil {
			t.Fatal(err)
		}
		if increment(&before); !done && nonce != before {
			t.Fatalf("nonce %x, want %x", nonce, before)
		}
	}
	if p.Nonce[2] < 6 || p.Nonce[3] != 0 {
		t.Errorf("nonce %x", p.Nonce)
	}
	if err := Check(&params.Blinded, &params.Seed, &p); err != nil {
		t.Error(err)
	}
}

// A solver ends with its context, however high the effort.
func TestSolveCanceled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		close(begun)
		_, _, err := NewSolver().Solve(ctx, new([16]byte), &Params{Effort: 1<<32 - 1}, nil)
		ended <- err
	}()
	<-begun
	because := errors.New("enough")
	cancel(because)
	if err := <-ended; !errors.Is(err, because) || !fault.Is(err, fault.Closed) {
		t.Error(err)
	}
}

func TestIncrement(t *testing.T) {
	n := [16]byte{0xff, 0xff, 7}
	if increment(&n); n != [16]byte{0, 0, 8} {
		t.Errorf("%x", n)
	}
	for i := range n {
		n[i] = 0xff
	}
	if increment(&n); n != [16]byte{} {
		t.Errorf("%x", n)
	}
}

func BenchmarkSolve(b *testing.B) {
	s := NewSolver()
	for b.Loop() {
		if _, _, err := s.Solve(b.Context(), new([16]byte), &Params{Effort: 1}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// sumOf is a hash with a sum that is known before.
type sumOf uint32

func (sumOf) Write(b []byte) (int, error) { return len(b), nil }
func (s sumOf) Sum(b []byte) []byte       { return binary.BigEndian.AppendUint32(b, uint32(s)) }
func (sumOf) Reset()                      {}
func (sumOf) Size() int                   { return 4 }
func (sumOf) BlockSize() int              { return 1 }

// TestEffortBounds: the hash times the effort may be the greatest number of 32 bits, and no more.
func TestEffortBounds(t *testing.T) {
	for _, c := range []struct {
		sum, effort uint32
		want        bool
	}{{math.MaxUint32, 1, true}, {math.MaxUint32, 2, false}, {math.MaxUint32 / 3, 3, true}, {math.MaxUint32/3 + 1, 3, false}, {1, math.MaxUint32, true}, {2, math.MaxUint32, false}, {0, math.MaxUint32, true}} {
		if got := reaches(sumOf(c.sum), nil, new([16]byte), c.effort); got != c.want {
			t.Errorf("%d, effort %d: %v", c.sum, c.effort, got)
		}
	}
}
