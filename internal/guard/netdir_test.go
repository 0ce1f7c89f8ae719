package guard

import (
	"testing"

	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

func TestFromNetdir(t *testing.T) {
	n, err := dirgen.New(dirgen.Options{Relays: 300})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Publish(epoch); err != nil {
		t.Fatal(err)
	}
	d, err := n.Directory()
	if err != nil {
		t.Fatal(err)
	}
	v := FromNetdir(d)
	guards := 0
	for c := range v.Guards() {
		guards++
		r, ok := d.Lookup(c.ID.RSA)
		if !ok || r.ID() != c.ID || !r.Has(netdir.FlagGuard|netdir.FlagStable|netdir.FlagV2Dir) || c.Weight != d.Weight(r, netdir.PosGuard) ||
			!c.Complete || c.Addrs[0] != r.IPv4() || c.Nickname != r.Nickname() {
			t.Fatalf("%+v", c)
		}
		if got, ok := v.Guard(c.ID.RSA); !ok || got.ID != c.ID {
			t.Fatal("not found again")
		}
	}
	for r := range d.All() {
		if _, ok := v.Guard(r.RSA()); ok != r.Has(flags) {
			t.Fatal("a relay without the flags is a guard, or the reverse")
		}
	}
	if guards == 0 || guards == d.Len() {
		t.Fatalf("%d guards of %d relays: the test shows nothing", guards, d.Len())
	}
	m, err := New(config(1), &MemStore{}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	m.Update(v, epoch)
	u := pick(t, m, epoch)
	if _, ok := v.Guard(u.Guard().ID.RSA); !ok {
		t.Fatal("a stranger was picked")
	}
}
