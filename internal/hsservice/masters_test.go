package hsservice

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

func TestReadMasters(t *testing.T) {
	one, two := key(t).Address(), key(t).Address()
	for name, c := range map[string]struct {
		text string
		want []string
		err  string
	}{
		"one":             {"MasterOnionAddress " + one + "\n", []string{one}, ""},
		"two":             {"# masters\nMasterOnionAddress " + one + "\n\nmasteronionaddress\t" + two, []string{one, two}, ""},
		"spaces, comment": {"  MasterOnionAddress   " + one + "  # shop\r\n", []string{one}, ""},
		"quotes":          {`MasterOnionAddress "` + one + `"`, []string{one}, ""},
		"other options":   {"Frobnicate 3\nMasterOnionAddress " + one, []string{one}, ""},
		"nothing":         {"", nil, "no line"},
		"a comment alone": {"# MasterOnionAddress " + one, nil, "no line"},
		"too long":        {strings.Repeat("# nothing\n", maxFile), nil, "bytes"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileMasters), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadMasters(dir)
		if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	if got, err := ReadMasters(t.TempDir()); got != nil || err != nil {
		t.Errorf("without the file: %q %v", got, err)
	}
}

func key(t *testing.T) *Key {
	t.Helper()
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestParsePeers(t *testing.T) {
	k := key(t)
	a := k.Address()
	got, err := ParsePeers("master", []string{a, strings.ToUpper(a)})
	if err != nil || !slices.Equal(got, []ident.Ed25519ID{k.ID()}) {
		t.Errorf("%v %v", got, err)
	}
	for _, bad := range []string{"", "onion", strings.TrimSuffix(a, ".onion"), "www." + a, a + ".", "a" + a[1:55] + "a.onion", "expyuzz4wqqyqhjn.onion"} {
		if got, err := ParsePeers("master", []string{bad}); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
	if s, err := New(Config{Key: k, Network: nowhere{}, Masters: []ident.Ed25519ID{k.ID()}}); err == nil {
		s.Close()
		t.Error("a service is its own master")
	}
}

// TestMasters: clients of the master's address reach a backend, in the periods around
// the present one; clients of the backend's own address do, too; others do not.
func TestMasters(t *testing.T) {
	n, err := dirgen.New(dirgen.Options{Relays: 10, Authorities: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Publish(time.Now()); err != nil {
		t.Fatal(err)
	}
	d, err := n.Directory()
	if err != nil {
		t.Fatal(err)
	}
	s, p := hosted(t, nowhere{})
	one, two := key(t).ID(), key(t).ID()
	s.cfg.Masters = []ident.Ed25519ID{one, two}
	s.mu.Lock()
	err = s.setMastersLocked(d)
	s.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	now := d.HSTimes(false).Period
	var cookie byte
	try := func(id ident.Ed25519ID, p2 hscrypto.Period) error {
		t.Helper()
		blinded, err := hscrypto.Blind(id, p2)
		if err != nil {
			t.Fatal(err)
		}
		a := ask()
		cookie++
		a.cookie, a.subcred = cookie, hscrypto.Subcredential(id, blinded)
		_, err = s.decrypt(p, a.message(t, p), time.Now())
		return err
	}
	for _, id := range []ident.Ed25519ID{one, two} {
		for _, p2 := range []hscrypto.Period{now.Prev(), now, now.Next()} {
			if err := try(id, p2); err != nil {
				t.Errorf("period %d: %v", p2.Num, err)
			}
		}
		if try(id, now.Next().Next()) == nil || try(id, now.Prev().Prev()) == nil {
			t.Error("a period that is far away counts")
		}
	}
	if try(key(t).ID(), now) == nil {
		t.Error("a stranger's address counts")
	}
	a := ask()
	a.cookie = 99
	if _, err := s.decrypt(p, a.message(t, p), time.Now()); err != nil {
		t.Error("the own address does not count: ", err)
	}
}
