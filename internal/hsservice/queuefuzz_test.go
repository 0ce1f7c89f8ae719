package hsservice

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
)

// FuzzQueue has introductions come, wait and go in any order. Each byte is a step.
func FuzzQueue(f *testing.F) {
	f.Add([]byte{0, 1, 2, 0x40, 0x80, 0xc1, 0x41})
	f.Add([]byte("aaaaaaaaaaaaaaaa@@@@@@@@@@bbbbbbb@@@@@@@@@"))
	f.Add([]byte{0x18, 1, 0x50, 0x38, 0x51, 0x39, 0xc1, 0x40, 0x3f, 0x20, 0x58, 0x40})
	f.Fuzz(func(t *testing.T, steps []byte) {
		q, p := queueOf(8)
		on := account.New(1<<30).Address(netip.Addr{}).Open(account.Circuit, nil)
		now := time.Unix(1e9, 0)
		var closed [8]bool // points that may have no rendezvous now
		added, taken := 0, 0
		effort := uint32(0) // of those that come next
		var lost uint64
		q.onDrop = func(introduction) { lost++ }
		for _, b := range steps {
			at := int(b & 7)
			switch b >> 6 {
			case 0: // many come
				for range 1 + int(b>>3&7)*maxWaiting/8 {
					q.add(introduction{p: p[at], body: []byte{byte(at)}, at: now, on: on, effort: effort})
					added++
				}
			case 1:
				effort = uint32(b >> 3 & 7)
				before := q.n
				greatest := map[int]bool{} // points that wait with the greatest effort
				top := uint32(0)
				for _, l := range q.lanes {
					if now.Sub(l.waiting[len(l.waiting)-1].at) >= maxWait {
						continue
					}
					if len(greatest) == 0 {
						top = l.effort
					}
					if l.effort == top {
						greatest[slices.Index(p, l.p)] = true
					}
				}
				in, wait, ok := q.take(now, func(o *point, _ uint32) time.Duration {
					for i := range p {
						if o == p[i] && closed[i] {
							return time.Second
						}
					}
					return 0
				})
				switch {
				case ok && (closed[in.body[0]] || in.p != p[in.body[0]] || now.Sub(in.at) >= maxWait):
					t.Fatalf("point %d's introduction must not be taken", in.body[0])
				case ok && (in.effort != top || !greatest[int(in.body[0])]):
					t.Fatalf("effort %d is taken, and %d waits", in.effort, top)
				case ok:
					taken++
				case wait <= 0 || q.n > before:
					t.Fatalf("nothing is taken, wait %v, %d of %d", wait, q.n, before)
				}
			case 2:
				closed[at] = !closed[at]
			case 3:
				now = now.Add(time.Duration(b&63) * time.Second)
			}
			n := 0
			for i, l := range q.lanes {
				if len(l.waiting) == 0 {
					t.Fatal("an empty lane has a turn")
				}
				for _, o := range q.lanes[:i] {
					if o.p == l.p && o.effort == l.effort {
						t.Fatal("a point has two turns")
					}
					if o.effort < l.effort {
						t.Fatal("a lesser effort is before a greater one")
					}
				}
				n += len(l.waiting)
			}
			switch {
			case n != q.n || n > maxWaiting:
				t.Fatalf("%d wait, and %d are counted", n, q.n)
			case uint64(added) != uint64(taken)+uint64(n)+q.dropped || lost != q.dropped:
				t.Fatalf("%d came, %d were taken, %d wait, %d were dropped", added, taken, n, q.dropped)
			case on.Used() != int64(n)*(1+introductionCost):
				t.Fatalf("%d bytes are counted for %d", on.Used(), n)
			}
		}
	})
}
