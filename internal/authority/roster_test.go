package authority

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// TestRoster compares the roster with what a look at every relay gives, after each of many changes.
func TestRoster(t *testing.T) {
	identities, signings := keyPool(t, 2048, 1), keyPool(t, 2048, 1)
	synctest.Test(t, func(t *testing.T) {
		var o orPorts
		a := tester(t, identities, signings, &o, nil)
		a.listed = listing{flags: map[ident.RSAID]netdoc.Flags{}}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 3000 {
			now := time.Now()
			d := blackHole(rng.IntN(60))
			d.Addr = netip.AddrFrom4([4]byte{20, 1, 1, byte(rng.IntN(5))})
			d.Text = make([]byte, rng.IntN(100))
			d.Ed[0] = byte(rng.IntN(2)) // a relay may change its Ed25519 identity
			r := a.relays.byRSA[d.RSA]
			switch rng.IntN(6) {
			case 0:
				if r != nil {
					a.removeLocked(r)
				}
			case 1:
				a.listed.flags[d.RSA] = netdoc.FlagRunning // it is no stranger any more
			case 2:
				delete(a.listed.flags, d.RSA)
			case 3:
				time.Sleep(time.Duration(1+rng.IntN(8)) * time.Second)
				if c := a.strangersLocked(time.Now()); c.taken.Equal(time.Now()) && len(c.list) != a.countStrangers() {
					t.Fatalf("a new census has %d strangers of %d", len(c.list), a.countStrangers())
				}
			default:
				from := netip.AddrFrom4([4]byte{20, byte(rng.IntN(3)), 1, byte(rng.IntN(3))})
				n := newRelay(d, from, now)
				a.relays.put(n)
				if !a.knownLocked(n, now) {
					a.relays.strangers.add(n)
				}
			}
			a.checkRoster(t)
		}
	})
}

func (a *Authority) countStrangers() (n int) {
	for _, r := range a.relays.byRSA {
		if !a.knownLocked(r, time.Now()) {
			n++
		}
	}
	return n
}

func (a *Authority) checkRoster(t *testing.T) {
	t.Helper()
	s := &a.relays
	groups := 0
	for _, g := range s.onAddress {
		groups += len(g)
	}
	for _, g := range s.bySource {
		groups += len(g)
	}
	if n := len(s.byRSA); groups != 2*n || len(s.byEd) != n {
		t.Fatalf("%d relays: %d of Ed25519 identities, %d in groups", n, len(s.byEd), groups)
	}
	for _, r := range s.byRSA {
		_, on := s.onAddress[r.desc.Addr][r]
		_, by := s.bySource[r.source][r]
		if s.byEd[r.desc.Ed] != r || !on || !by {
			t.Fatal("a relay cannot be found by its identity, address or source")
		}
	}
	c := &s.strangers
	bytes, nets := 0, map[netip.Prefix]int{}
	for i, r := range c.list {
		if r.counted == nil || r.counted.index != i || !s.has(r) {
			t.Fatal("a stranger has no place, or is gone")
		}
		bytes += r.size()
		nets[r.network]++
	}
	if bytes != c.bytes || len(nets) != len(c.network) {
		t.Fatalf("%d bytes, not %d; %d networks, not %d", c.bytes, bytes, len(c.network), len(nets))
	}
	for net, n := range nets {
		if *c.network[net] != n {
			t.Fatalf("%d strangers of a network, not %d", *c.network[net], n)
		}
	}
}

// BenchmarkAccept is an upload without its signatures, in networks of several sizes, and with as many strangers as fit.
func BenchmarkAccept(b *testing.B) {
	for _, strangers := range []int{0, maxStrangers} {
		for _, known := range []int{1000, 9000, 20000} {
			b.Run(fmt.Sprintf("%d relays, %d strangers", known, strangers), func(b *testing.B) {
				now := time.Now()
				a := &Authority{relays: newRoster(), listed: listing{flags: map[ident.RSAID]netdoc.Flags{}}}
				a.cfg.Accept.MaxRelays, a.cfg.Flags.MaxServersPerIP = 1<<20, 2
				for n := range known + strangers {
					d := blackHole(n)
					d.Addr = netip.AddrFrom4([4]byte{20, byte(n >> 16), byte(n >> 8), byte(n)})
					if n < known {
						a.listed.flags[d.RSA] = netdoc.FlagRunning
					}
					a.relays.put(newRelay(d, d.Addr, now))
				}
				again := newRelay(blackHole(7), netip.Addr{}, now)
				for i := 0; b.Loop(); i++ {
					stranger := newRelay(blackHole(1<<30+i), netip.Addr{}, now)
					for _, n := range []*relay{again, stranger} {
						if err := a.checkPairLocked(n.desc); err != nil {
							b.Fatal(err)
						}
						if err := a.admitLocked(n, a.relays.byRSA[n.desc.RSA], now); err != nil {
							b.Fatal(err)
						}
					}
					if strangers > 0 {
						a.relays.put(stranger)
						a.relays.strangers.add(stranger)
					}
				}
			})
		}
	}
}
