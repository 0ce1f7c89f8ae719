package hsfleet

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// somePoints makes introduction points with keys of their own.
func somePoints(n int) (out []netdoc.HSIntroPoint) {
	for range n {
		var p netdoc.HSIntroPoint
		_, _ = rand.Read(p.Auth[:]) // never fails (crypto/rand)
		out = append(out, p)
	}
	return out
}

// entriesOf makes hosts with so many points each.
func entriesOf(counts ...int) (hosts []Entry, all []netdoc.HSIntroPoint) {
	for i, n := range counts {
		e := Entry{Host: HostID{byte(i + 1)}, At: time.Unix(1_700_000_000+int64(i), 0), Effort: uint32(i) * 100, Points: somePoints(n)}
		hosts = append(hosts, e)
		all = append(all, e.Points...)
	}
	return hosts, all
}

func TestItem(t *testing.T) {
	f, err := newSealer([]byte("a key"))
	if err != nil {
		t.Fatal(err)
	}
	blinded := ident.Ed25519ID{7}
	length := 0
	for _, counts := range [][]int{{}, {3}, {3, 2, 1}, {10, 10}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}} {
		hosts, all := entriesOf(counts...)
		item, err := f.Seal(hosts, blinded, 5)
		if err != nil {
			t.Fatal(err)
		}
		if length == 0 {
			length = len(item)
		}
		if len(item) != length || len(item) > netdoc.MaxHSFleet {
			t.Errorf("%d hosts: %d bytes, not %d", len(counts), len(item), length)
		}
		got, err := f.Open(item, blinded, 5, all)
		if err != nil || len(got) != len(hosts) {
			t.Fatalf("%d hosts: %d, %v", len(hosts), len(got), err)
		}
		for i, e := range got {
			if e.Host != hosts[i].Host || !e.At.Equal(hosts[i].At) || !SamePoints(e.Points, hosts[i].Points) {
				t.Errorf("host %d: %+v", i, e)
			}
		}
		// Only in the descriptor that it was made for, and only with the service's key.
		if _, err := f.Open(item, blinded, 6, all); err == nil {
			t.Error("another revision's item is read")
		}
		if _, err := f.Open(item, ident.Ed25519ID{8}, 5, all); err == nil {
			t.Error("another period's item is read")
		}
		if other, err := newSealer([]byte("another key")); err != nil {
			t.Error(err)
		} else if _, err := other.Open(item, blinded, 5, all); err == nil {
			t.Error("a stranger reads the item")
		}
		for i := range item {
			item[i] ^= 1
			if _, err := f.Open(item, blinded, 5, all); err == nil {
				t.Fatalf("a change of byte %d is not noticed", i)
			}
			item[i] ^= 1
		}
		// Points that the descriptor lacks are passed over, and hosts without points.
		if got, err := f.Open(item, blinded, 5, nil); err != nil || len(got) != 0 {
			t.Errorf("%+v %v", got, err)
		}
	}
	hosts, _ := entriesOf(21)
	if _, err := f.Seal(hosts, blinded, 5); err == nil {
		t.Error("too many points are written")
	}
}

// What another holder of the key can write is read strictly.
func TestItemRefused(t *testing.T) {
	f, err := newSealer([]byte("a key"))
	if err != nil {
		t.Fatal(err)
	}
	blinded := ident.Ed25519ID{7}
	hosts, all := entriesOf(3, 2)
	item, err := f.Seal(hosts, blinded, 5)
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
		if got, err := f.Open(b, blinded, 5, all); err == nil {
			t.Errorf("%s: %+v", what, got)
		}
	}
	// One point has one host.
	b := append([]byte(nil), plain...)
	copy(b[1+29+3*32+29:], b[1+29:1+29+32])
	got, err := f.Open(f.aead.Seal(nil, nil, b, bound(blinded, 5)), blinded, 5, all)
	if err != nil || len(got) != 2 || len(got[0].Points) != 3 || len(got[1].Points) != 1 {
		t.Errorf("%+v %v", got, err)
	}
}

// FuzzItem: whatever a holder of the key writes, reading it ends, and within bounds.
func FuzzItem(f *testing.F) {
	seal, err := newSealer([]byte("a key"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(make([]byte, itemLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		item := seal.aead.Seal(nil, nil, b, bound(ident.Ed25519ID{}, 1))
		hosts, err := seal.Open(item, ident.Ed25519ID{}, 1, []netdoc.HSIntroPoint{{Auth: ident.Ed25519ID{}}})
		if err == nil && len(hosts) > MaxHosts {
			t.Error(len(hosts))
		}
	})
}
