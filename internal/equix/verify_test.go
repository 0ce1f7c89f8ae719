package equix

import (
	"encoding/binary"
	"errors"
	"testing"
)

// TestVerifyChanges changes each byte of solutions.
func TestVerifyChanges(t *testing.T) {
	for _, p := range readProofs(t)[:4] {
		for i := range p.solution {
			for _, change := range []byte{1, 0x80, 0xff} {
				s := p.solution
				s[i] ^= change
				if err := Verify(p.challenge, &s); !errors.Is(err, ErrOrder) && !errors.Is(err, ErrSum) {
					t.Errorf("byte %d changed: %v", i, err)
				}
			}
		}
		other := append([]byte{1}, p.challenge...)
		if err := Verify(other, &p.solution); !errors.Is(err, ErrSum) {
			t.Errorf("another challenge: %v", err)
		}
	}
}

// TestVerifyOrder exchanges the sides of sums: they stay zero, and only the order is wrong.
func TestVerifyOrder(t *testing.T) {
	p := readProofs(t)[0]
	for size := 2; size <= 8; size *= 2 {
		for at := 0; at < len(p.solution); at += 2 * size {
			s := p.solution
			copy(s[at:], p.solution[at+size:at+2*size])
			copy(s[at+size:], p.solution[at:at+size])
			if err := Verify(p.challenge, &s); !errors.Is(err, ErrOrder) {
				t.Errorf("sides of %d bytes at %d: %v", size, at, err)
			}
			v := verifier{maker: newMaker()}
			if err := v.verify(p.challenge, &s); err != nil {
				t.Errorf("sides of %d bytes at %d, without a check of the order: %v", size, at, err)
			}
		}
	}
	if !ordered(new([16]byte)) {
		t.Error("sides that are the same are not in order")
	}
}

func TestVerifyAllocates(t *testing.T) {
	p := readProofs(t)[0]
	v := verifier{maker: newMaker()}
	if n := testing.AllocsPerRun(20, func() {
		if err := v.verify(p.challenge, &p.solution); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzVerify compares Verify with the definition.
func FuzzVerify(f *testing.F) {
	for _, p := range readProofs(f)[:3] {
		f.Add(p.challenge, p.solution[:])
	}
	f.Add([]byte{}, make([]byte, 16))
	f.Add(challenge(unusable), make([]byte, 16))
	f.Fuzz(func(t *testing.T, challenge, solution []byte) {
		if len(solution) < 16 {
			return
		}
		s := [16]byte(solution[:16])
		if got, want := Verify(challenge, &s), slowVerify(challenge, &s); !errors.Is(got, want) {
			t.Errorf("%v, not %v", got, want)
		}
	})
}

// slowVerify follows the specification's section 2 word by word.
func slowVerify(challenge []byte, solution *[16]byte) error {
	var index [8]uint16
	for i := range index {
		index[i] = binary.LittleEndian.Uint16(solution[2*i:])
	}
	for size := 1; size < 8; size *= 2 {
		for at := 0; at < 8; at += 2 * size {
			for k := size - 1; k >= 0; k-- { // the last index counts most
				l, r := index[at+k], index[at+size+k]
				if l > r {
					return ErrOrder
				}
				if l < r {
					break
				}
			}
		}
	}
	m := newMaker()
	if !m.program(challenge) {
		return ErrUnusable
	}
	for size, zero := 2, 15; size <= 8; size, zero = 2*size, 2*zero {
		for at := 0; at < 8; at += size {
			sum := uint64(0)
			for _, i := range index[at : at+size] {
				sum += m.p.slowHash(uint64(i))
			}
			if sum%(1<<zero) != 0 {
				return ErrSum
			}
		}
	}
	return nil
}

func BenchmarkVerify(b *testing.B) {
	proofs := readProofs(b)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		p := &proofs[n%len(proofs)]
		if err := Verify(p.challenge, &p.solution); err != nil {
			b.Fatal(err)
		}
		n++
	}
}
