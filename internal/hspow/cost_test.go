package hspow

import (
	"encoding/binary"
	"testing"

	"github.com/chivenet/chive/internal/account/accounttest"
)

// TestCosts: what the account counts for a proof is what it takes.
func TestCosts(t *testing.T) {
	accounttest.True(t, accounttest.Case{Name: "proof of work", Cost: spentCost, N: 60000, Make: func(n int) any {
		s := NewSpent(nil)
		for i := range n {
			var nonce [16]byte
			binary.BigEndian.PutUint64(nonce[:], uint64(i))
			s.Add(&nonce, 1+uint32(i%3))
		}
		return s
	}})
}
