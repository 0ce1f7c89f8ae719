package fte

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/chivenet/chive/internal/account"
)

// TestCrowd holds a crowd to a plain list of who came, and from where.
func TestCrowd(t *testing.T) {
	m := account.New(1)
	var keys []*account.Account
	for i := range 5 {
		keys = append(keys, m.Address(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})))
	}
	type member struct {
		p   *place
		key *account.Account
		id  int
	}
	r := rand.New(rand.NewPCG(1, 2))
	c := newCrowd()
	var all []member // in the order in which they came
	size := func(key *account.Account) (n int) {
		for _, x := range all {
			if x.key == key {
				n++
			}
		}
		return n
	}
	for i := range 20_000 {
		switch k := r.IntN(10); {
		case k < 5:
			key := keys[r.IntN(1+r.IntN(len(keys)))]
			all = append(all, member{c.enter(key, i), key, i})
		case len(all) == 0:
		case k < 8:
			at := r.IntN(len(all))
			c.leave(all[at].p)
			c.leave(all[at].p)
			all = append(all[:at:at], all[at+1:]...)
		default:
			most := 0
			for _, key := range keys {
				most = max(most, size(key))
			}
			out := c.oldest
			if k == 9 {
				out = c.newest
			}
			id := out().(int)
			at := 0
			for all[at].id != id {
				at++
			}
			if size(all[at].key) != most {
				t.Fatalf("one of %d from its address goes, where %d came from another", size(all[at].key), most)
			}
			for j, x := range all {
				if x.key == all[at].key && (k == 8 && j < at || k == 9 && j > at) {
					t.Fatal("not the first or last of its address goes")
				}
			}
			all = append(all[:at:at], all[at+1:]...)
		}
		if c.n != len(all) {
			t.Fatalf("%d members, not %d", c.n, len(all))
		}
		for _, key := range keys {
			if c.size(key) != size(key) {
				t.Fatalf("%d from an address, not %d", c.size(key), size(key))
			}
		}
	}
	for len(all) > 0 {
		c.leave(all[0].p)
		all = all[1:]
	}
	if c.n != 0 || len(c.groups) != 0 || len(c.sizes) != 0 || c.most != 0 {
		t.Errorf("an empty crowd keeps %d groups, %d sizes, largest %d", len(c.groups), len(c.sizes), c.most)
	}
}
