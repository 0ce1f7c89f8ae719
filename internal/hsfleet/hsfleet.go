// Package hsfleet shares an onion service among several hosts: a fleet, whose hosts have one
// key, and a frontend with backends, as OnionBalance has them.
//
// In both, a descriptor names introduction points of others. What is read here was written by
// somebody else.
package hsfleet

import (
	"crypto/rand"
	"math/big"
)

// random returns a number from 0 to n-1.
func random(n int64) int64 {
	v, err := rand.Int(rand.Reader, big.NewInt(n))
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	return v.Int64()
}
