package equix

import (
	"context"
	"errors"
	"math/bits"
	"testing"
)

// TestProgramShape checks what the specification says follows from its rules: every program has the same
// kinds of instructions at the same places.
func TestProgramShape(t *testing.T) {
	m := newMaker()
	for n := range 200 {
		if !m.program(challenge(n)) {
			continue
		}
		multiplications := 0
		for i, in := range m.p.code {
			switch in.op {
			case opMul, opUMulH, opSMulH:
				multiplications++
			case opBranch:
				if bits.OnesCount32(in.c) != 4 {
					t.Errorf("challenge %d: the mask %b of instruction %d", n, in.c, i)
				}
			}
			if (in.op == opTarget) != (i%32 == 1) || (in.op == opBranch) != (i%32 == 17) {
				t.Errorf("challenge %d: operation %d at place %d", n, in.op, i)
			}
			if in.op == opAddShift && in.dst == r5 {
				t.Errorf("challenge %d: AddShift writes R5", n)
			}
		}
		if multiplications != 192 {
			t.Errorf("challenge %d: %d multiplications", n, multiplications)
		}
	}
}

// unusable is a challenge of this test's series that is unusable: one in 20,000 is.
const unusable = 2710

func TestUnusable(t *testing.T) {
	m := newMaker()
	bad := 0
	for n := range 1000 {
		if !m.program(challenge(n)) {
			bad++
		}
	}
	if bad > 2 {
		t.Errorf("%d of 1,000 challenges are unusable", bad)
	}
	if err := Verify(challenge(unusable), new([16]byte)); !errors.Is(err, ErrUnusable) {
		t.Errorf("Verify: %v", err)
	}
	if _, err := NewSolver().Solve(context.Background(), challenge(unusable)); !errors.Is(err, ErrUnusable) {
		t.Errorf("Solve: %v", err)
	}
}

func BenchmarkProgram(b *testing.B) {
	m := newMaker()
	n := 0
	for b.Loop() {
		m.program(challenge(n))
		n++
	}
}
