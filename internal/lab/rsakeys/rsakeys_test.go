package rsakeys

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"math/big"
	"sync"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestKeys: keys differ, have the size that was asked for, also when many ask at the same time, and sign.
func TestKeys(t *testing.T) {
	var s Source
	const n = 40
	var keys [n]*rsa.PrivateKey
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			k, err := s.Key(1024)
			if err != nil {
				t.Error(err)
				return
			}
			keys[i] = k
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	sum := sha256.Sum256([]byte("text"))
	seen := map[string]bool{}
	for _, k := range keys {
		if k.N.BitLen() != 1024 || k.E != exponent || seen[k.N.String()] {
			t.Errorf("a key of %d bits with the exponent %d, seen before: %v", k.N.BitLen(), k.E, seen[k.N.String()])
		}
		seen[k.N.String()] = true
		sig, err := rsa.SignPKCS1v15(nil, k, crypto.SHA256, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		if err := rsa.VerifyPKCS1v15(&k.PublicKey, crypto.SHA256, sum[:], sig); err != nil {
			t.Error(err)
		}
	}
	if first, last := keys[0].Primes[0], keys[n-1].Primes[0]; first.Cmp(last) != 0 {
		t.Errorf("%d keys have more than one prime of this process", n)
	}
}

// TestKnown: the numbers in the table are primes, of the right size, that an exponent can be inverted for, and all differ.
func TestKnown(t *testing.T) {
	for size, table := range steps {
		seen := map[string]bool{}
		for i := range table {
			p := known(size, i)
			if p.BitLen() != size || p.Bit(size-2) != 1 || new(big.Int).Mod(p, big.NewInt(exponent)).Int64() == 1 || seen[p.String()] {
				t.Fatalf("the %dth number of %d bits cannot be used", i, size)
			}
			seen[p.String()] = true
			if !p.ProbablyPrime(0) {
				t.Fatalf("the %dth number of %d bits is no prime", i, size)
			}
		}
	}
}

// TestMany: when a prime has met all known ones, another one takes its place.
func TestMany(t *testing.T) {
	var s Source
	seen := map[string]bool{}
	n := len(steps[512])
	for i := range n + 2 {
		p, q, err := s.pair(1024)
		if err != nil {
			t.Fatal(err)
		}
		if modulus := new(big.Int).Mul(p, q).String(); seen[modulus] {
			t.Fatalf("key %d of %d is there twice", i, n)
		} else {
			seen[modulus] = true
		}
	}
	var other Source
	p, q, err := other.pair(1024)
	if err != nil || seen[new(big.Int).Mul(p, q).String()] {
		t.Errorf("two networks have one key: %v", err)
	}
}

// TestSizes: each size has primes of its own, and others are refused.
func TestSizes(t *testing.T) {
	var s Source
	for _, bits := range []int{1024, 2048, 1024} {
		k, err := s.Key(bits)
		if err != nil {
			t.Fatal(err)
		}
		if k.N.BitLen() != bits {
			t.Errorf("a key of %d bits has %d", bits, k.N.BitLen())
		}
	}
	if _, err := s.Key(1536); !fault.Is(err, fault.Local) {
		t.Errorf("a key of a size without primes: %v", err)
	}
}

func BenchmarkKey1024(b *testing.B) {
	var s Source
	for b.Loop() {
		if _, err := s.Key(1024); err != nil {
			b.Fatal(err)
		}
	}
}
