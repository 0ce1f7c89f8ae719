package ports

import "testing"

func TestLeasesDiffer(t *testing.T) {
	var a, b Leases
	defer a.Release()
	defer b.Release()
	first, last := span()
	seen := map[uint16]bool{}
	for range 50 {
		for _, l := range []*Leases{&a, &b} {
			p, err := l.Take(loopback4)
			if err != nil {
				t.Fatal(err)
			}
			if seen[p] || int(p) < first || int(p) >= last {
				t.Fatalf("port %d", p)
			}
			seen[p] = true
		}
	}
}

func TestOutside(t *testing.T) {
	for text, want := range map[string][2]int{
		"32768\t60999\n":  {firstPort, lastPort},
		"1024\t5000\n":    {firstPort, lastPort},
		"16000\t65535\n":  {firstPort, 16000},
		"9000\t60000\n":   {60001, 65536},
		"1024\t65535\n":   {firstPort, lastPort},
		"what is this?\n": {firstPort, lastPort},
	} {
		if first, last := outside(text); first != want[0] || last != want[1] {
			t.Errorf("outside %q: %d to %d, want %v", text, first, last, want)
		}
	}
}
