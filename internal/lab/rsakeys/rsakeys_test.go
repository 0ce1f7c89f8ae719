package rsakeys

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"sync"
	"testing"
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
	if got := len(s.primes[1024]); got != 10 { // 9 primes have 36 pairs
		t.Errorf("%d keys took %d primes", n, got)
	}
}

// TestSizes: each size has primes of its own.
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
}

func BenchmarkKey1024(b *testing.B) {
	var s Source
	for b.Loop() {
		if _, err := s.Key(1024); err != nil {
			b.Fatal(err)
		}
	}
}
