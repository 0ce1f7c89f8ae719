package hsservice

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// entriesOf makes hosts with so many points each.
func entriesOf(t *testing.T, counts ...int) (hosts []hostEntry, all []netdoc.HSIntroPoint) {
	t.Helper()
	for i, n := range counts {
		e := hostEntry{host: hostID{byte(i + 1)}, at: time.Unix(1_700_000_000+int64(i), 0), effort: uint32(i) * 100, points: offers(t, n).Points}
		hosts = append(hosts, e)
		all = append(all, e.points...)
	}
	return hosts, all
}

func TestFleetItem(t *testing.T) {
	k := key(t)
	f, err := newFleetSeal(k)
	if err != nil {
		t.Fatal(err)
	}
	blinded := ident.Ed25519ID{7}
	length := 0
	for _, counts := range [][]int{{}, {3}, {3, 2, 1}, {10, 10}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}} {
		hosts, all := entriesOf(t, counts...)
		item, err := f.seal(hosts, blinded, 5)
		if err != nil {
			t.Fatal(err)
		}
		if length == 0 {
			length = len(item)
		}
		if len(item) != length || len(item) > netdoc.MaxHSFleet {
			t.Errorf("%d hosts: %d bytes, not %d", len(counts), len(item), length)
		}
		got, err := f.open(item, blinded, 5, all)
		if err != nil || len(got) != len(hosts) {
			t.Fatalf("%d hosts: %d, %v", len(hosts), len(got), err)
		}
		for i, e := range got {
			if e.host != hosts[i].host || !e.at.Equal(hosts[i].at) || !samePoints(e.points, hosts[i].points) {
				t.Errorf("host %d: %+v", i, e)
			}
		}
		// Only in the descriptor that it was made for, and only with the service's key.
		if _, err := f.open(item, blinded, 6, all); err == nil {
			t.Error("another revision's item is read")
		}
		if _, err := f.open(item, ident.Ed25519ID{8}, 5, all); err == nil {
			t.Error("another period's item is read")
		}
		if other, err := newFleetSeal(key(t)); err != nil {
			t.Error(err)
		} else if _, err := other.open(item, blinded, 5, all); err == nil {
			t.Error("a stranger reads the item")
		}
		for i := range item {
			item[i] ^= 1
			if _, err := f.open(item, blinded, 5, all); err == nil {
				t.Fatalf("a change of byte %d is not noticed", i)
			}
			item[i] ^= 1
		}
		// Points that the descriptor lacks are passed over, and hosts without points.
		if got, err := f.open(item, blinded, 5, nil); err != nil || len(got) != 0 {
			t.Errorf("%+v %v", got, err)
		}
	}
	hosts, _ := entriesOf(t, 21)
	if _, err := f.seal(hosts, blinded, 5); err == nil {
		t.Error("too many points are written")
	}
}

// What another holder of the key can write is read strictly.
func TestFleetItemRefused(t *testing.T) {
	f, err := newFleetSeal(key(t))
	if err != nil {
		t.Fatal(err)
	}
	blinded := ident.Ed25519ID{7}
	hosts, all := entriesOf(t, 3, 2)
	item, err := f.seal(hosts, blinded, 5)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := f.aead.Open(nil, nil, item, bound(blinded, 5))
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(b []byte) []byte{
		"21 hosts":          func(b []byte) []byte { b[0] = 21; return b },
		"one host less":     func(b []byte) []byte { b[0] = 1; return b },
		"a host twice":      func(b []byte) []byte { copy(b[1+29+3*32:], b[1:17]); return b },
		"the year 50000":    func(b []byte) []byte { b[17] = 1; return b },
		"21 points":         func(b []byte) []byte { b[29] = 21; return b },
		"something behind":  func(b []byte) []byte { b[len(b)-1] = 1; return b },
		"a shorter one":     func(b []byte) []byte { return b[:len(b)-1] },
		"a longer one":      func(b []byte) []byte { return append(b, 0) },
		"nothing":           func(b []byte) []byte { return nil },
		"a host in nowhere": func(b []byte) []byte { b[0] = 20; _, _ = rand.Read(b[1:]); return b },
	} {
		b := f.aead.Seal(nil, nil, change(append([]byte(nil), plain...)), bound(blinded, 5))
		if got, err := f.open(b, blinded, 5, all); err == nil {
			t.Errorf("%s: %+v", what, got)
		}
	}
	// One point has one host.
	b := append([]byte(nil), plain...)
	copy(b[1+29+3*32+29:], b[1+29:1+29+32])
	got, err := f.open(f.aead.Seal(nil, nil, b, bound(blinded, 5)), blinded, 5, all)
	if err != nil || len(got) != 2 || len(got[0].points) != 3 || len(got[1].points) != 1 {
		t.Errorf("%+v %v", got, err)
	}
}

// FuzzFleetItem: whatever a holder of the key writes, reading it ends, and within bounds.
func FuzzFleetItem(f *testing.F) {
	k, err := NewKey()
	if err != nil {
		f.Fatal(err)
	}
	seal, err := newFleetSeal(k)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(make([]byte, fleetItemLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		item := seal.aead.Seal(nil, nil, b, bound(ident.Ed25519ID{}, 1))
		hosts, err := seal.open(item, ident.Ed25519ID{}, 1, []netdoc.HSIntroPoint{{Auth: ident.Ed25519ID{}}})
		if err == nil && len(hosts) > maxHosts {
			t.Error(len(hosts))
		}
	})
}
