// Package rsakeys makes RSA keys for the nodes of a laboratory, since finding primes is most of what a small network needs
// to start. One prime of each key is written in this package, and many keys share the other one: anybody who has the public
// key can compute the private one. These keys are for networks that end with the process, and for nothing else.
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
	mu    sync.Mutex // guards what follows; held while a prime is looked for
	fresh map[int]*fresh
}

// fresh is a prime of this process, and how many keys of its size have it: each with another of the known primes.
type fresh struct {
	prime *big.Int
	keys  int
}

// Key returns a key of 1024 or of 2048 bits. No two keys have the same modulus.
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
		Primes:    []*big.Int{new(big.Int).Set(p), q},
	}
	k.Precompute()
	if err := k.Validate(); err != nil {
		return nil, fault.New(fault.Local, "lab: an RSA key of %d bits: %w", bits, err)
	}
	return k, nil
}

// pair returns two primes that no key has together.
func (s *Source) pair(bits int) (p, q *big.Int, err error) {
	size := bits / 2
	table := steps[size]
	if table == nil {
		return nil, nil, fault.New(fault.Local, "lab: RSA keys of %d bits are not made here", bits)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fresh == nil {
		s.fresh = map[int]*fresh{}
	}
	f := s.fresh[size]
	if f == nil || f.keys == len(table) {
		p, err := prime(size)
		if err != nil {
			return nil, nil, fault.New(fault.Local, "lab: a prime of %d bits: %w", size, err)
		}
		f = &fresh{prime: p}
		s.fresh[size] = f
	}
	q = known(size, f.keys)
	f.keys++
	return f.prime, q, nil
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
