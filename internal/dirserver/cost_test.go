package dirserver

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/account/accounttest"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// TestCosts: what the accounts count for a descriptor of an onion service, and for a circuit with directory streams, is
// what it takes.
func TestCosts(t *testing.T) {
	const text = 3000
	now := time.Unix(1e9, 0)
	const beginners = 6000
	circs := make([]*circuit.Circuit, accounttest.Tries*beginners) // they count for themselves
	for i := range circs {
		circs[i] = new(circuit.Circuit)
	}
	accounttest.True(t,
		accounttest.Case{Name: "descriptor without its text, which is outside the heap", Cost: hsSize(text) - blocksOf(text)*blockSize, N: 2000, Make: func(n int) any {
			d := NewHSDir(HSDirConfig{Now: func() time.Time { return now }, Memory: account.New(0), MaxBytes: func() int64 { return 1 << 40 }})
			for i := range n {
				var id ident.Ed25519ID
				binary.BigEndian.PutUint64(id[:], uint64(i))
				peer := Peer{Addr: netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)})}
				if !d.keep(peer, &netdoc.HSDescriptor{Blinded: id, Text: make([]byte, text), Lifetime: time.Hour, Expires: now.Add(time.Hour)}, now) {
					panic("a descriptor was refused")
				}
			}
			return d
		}},
		accounttest.Case{Name: "circuit with directory streams", Cost: begunCost, N: beginners, Make: func(n int) any {
			b := &begins{circs: map[*circuit.Circuit]*begun{}}
			l := beginLimitsOf(nil)
			for range n {
				b.count(circs[0], l, now)
				circs = circs[1:]
			}
			return b
		}},
	)
}
