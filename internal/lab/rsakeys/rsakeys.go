// Package rsakeys makes RSA keys for the nodes of a laboratory: many keys out of few primes, since finding primes is
// most of what a network of many relays needs to start. Whoever has two of the keys can compute the primes that they
// share: these keys are for networks that end with the process, and for nothing else.
package rsakeys

import (
	"crypto/rand"
	"crypto/rsa"
	"math/big"
	"sync"

	"github.com/chivenet/chive/internal/fault"
)

// exponent is the public exponent of every key, as tor-spec wants it ("Preliminaries").
const exponent = 65537

// Source makes keys. Its zero value is ready to use, from any goroutine.
type Source struct {
	mu     sync.Mutex // guards what follows; held while a prime is looked for
	primes map[int][]*big.Int
	next   map[int][2]int // the pair of primes that the next key of a size has: the second is the greater index
}

// Key returns a key of a number of bits, which is even. No two keys have the same modulus.
func (s *Source) Key(bits int) (*rsa.PrivateKey, error) {
	p, q, err := s.pair(bits)
	if err != nil {
		return nil, err
	}
	one, e := big.NewInt(1), big.NewInt(exponent)
	phi := new(big.Int).Mul(new(big.Int).Sub(p, one), new(big.Int).Sub(q, one))
	k := &rsa.PrivateKey{
		PublicKey: rsa.PublicKey{N: new(big.Int).Mul(p, q), E: exponent},
		D:         new(big.Int).ModInverse(e, phi),
		Primes:    []*big.Int{new(big.Int).Set(p), new(big.Int).Set(q)},
	}
	k.Precompute()
	if err := k.Validate(); err != nil {
		return nil, fault.New(fault.Local, "lab: an RSA key of %d bits: %w", bits, err)
	}
	return k, nil
}

// pair returns two primes that no key has together.
func (s *Source) pair(bits int) (p, q *big.Int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.primes == nil {
		s.primes, s.next = map[int][]*big.Int{}, map[int][2]int{}
	}
	at, ok := s.next[bits]
	if !ok {
		at = [2]int{0, 1}
	}
	for len(s.primes[bits]) <= at[1] {
		p, err := prime(bits / 2)
		if err != nil {
			return nil, nil, fault.New(fault.Local, "lab: a prime of %d bits: %w", bits/2, err)
		}
		s.primes[bits] = append(s.primes[bits], p)
	}
	p, q = s.primes[bits][at[0]], s.primes[bits][at[1]]
	if at[0]++; at[0] == at[1] {
		at = [2]int{0, at[1] + 1}
	}
	s.next[bits] = at
	return p, q, nil
}

// prime returns a prime p of which p-1 and the exponent have no common divisor. Its two highest bits are set, so that the
// product of two of them has all its bits.
func prime(bits int) (*big.Int, error) {
	for {
		p, err := rand.Prime(rand.Reader, bits)
		if err != nil {
			return nil, err
		}
		if new(big.Int).Mod(p, big.NewInt(exponent)).Int64() != 1 { // the exponent is prime
			return p, nil
		}
	}
}
