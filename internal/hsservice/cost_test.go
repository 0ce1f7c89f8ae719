package hsservice

import (
	"encoding/binary"
	"testing"

	"github.com/chivenet/chive/internal/account/accounttest"
)

// TestCosts: what the accounts count for an introduction, and to remember one, is what it takes.
func TestCosts(t *testing.T) {
	const body = 300
	accounttest.True(t,
		accounttest.Case{Name: "introduction", Cost: introductionCost + body, N: 6000, Make: func(n int) any {
			q := &queue{most: n, ready: make(chan struct{}, 1)}
			for range n {
				q.add(introduction{body: make([]byte, body)})
			}
			return q
		}},
		accounttest.Case{Name: "introduction that was here", Cost: replayCost, N: 6000 * 10, Make: func(n int) any {
			all := make([]replays, 10)
			for i := range n {
				var k replayKey
				binary.BigEndian.PutUint64(k[:], uint64(i))
				all[i%10].add(k)
			}
			return all
		}},
	)
}
