package ports

import "testing"

func TestLeasesDiffer(t *testing.T) {
	var a, b Leases
	defer a.Release()
	defer b.Release()
	seen := map[uint16]bool{}
	for range 50 {
		for _, l := range []*Leases{&a, &b} {
			p, err := l.Take(loopback4)
			if err != nil {
				t.Fatal(err)
			}
			if seen[p] || p < firstPort || p >= lastPort {
				t.Fatalf("port %d", p)
			}
			seen[p] = true
		}
	}
}
