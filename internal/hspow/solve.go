package hspow

import (
	"context"
	"errors"
	"hash"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/equix"
	"github.com/chivenet/chive/internal/fault"
)

// SolverSize is what a Solver holds, in bytes.
const SolverSize = 2 << 20

// Params say what a proof is for.
type Params struct {
	Blinded [32]byte // the service's blinded key
	Seed    [32]byte // from its descriptor
	Effort  uint32
}

// Solver makes proofs, one after the other. It holds SolverSize bytes. Only one goroutine
// may use it at a time.
type Solver struct {
	equix     *equix.Solver
	hash      hash.Hash
	challenge []byte
}

// NewSolver returns a solver.
func NewSolver() *Solver {
	return &Solver{equix.NewSolver(), newHash(), make([]byte, 0, ChallengeLen)}
}

// Solve makes a proof. It tries one nonce after the other, from a first one that must be random: several
// solvers may work on the same parameters then. It has no upper bound: a nonce takes some 20 ms and has about two
// solutions, and one solution of p.Effort is good enough. It ends soon after ctx, with its
// error (fault.Ended). After each nonce that was no use it asks pause, unless that is nil; if
// that says so, the proof is not done, and nonce is the one to go on with.
func (s *Solver) Solve(ctx context.Context, nonce *[16]byte, p *Params, pause func() bool) (proof cell.PoW, done bool, err error) {
	for {
		if ctx.Err() != nil {
			return cell.PoW{}, false, fault.Ended(ctx, "proof of work: %w", context.Cause(ctx))
		}
		s.challenge = Challenge(s.challenge[:0], &p.Blinded, &p.Seed, nonce, p.Effort)
		solutions, err := s.equix.Solve(ctx, s.challenge)
		if err != nil && !errors.Is(err, equix.ErrUnusable) && ctx.Err() == nil {
			return cell.PoW{}, false, fault.New(fault.Local, "proof of work: %w", err)
		}
		for i := range solutions {
			if reaches(s.hash, s.challenge, &solutions[i], p.Effort) {
				return cell.PoW{Nonce: *nonce, Effort: p.Effort, SeedHead: [4]byte(p.Seed[:4]), Solution: solutions[i]}, true, nil
			}
		}
		increment(nonce)
		if pause != nil && pause() {
			return cell.PoW{}, false, nil
		}
	}
}

// increment counts up: the first byte is the lowest.
func increment(nonce *[16]byte) {
	for i := range nonce {
		if nonce[i]++; nonce[i] != 0 {
			return
		}
	}
}
