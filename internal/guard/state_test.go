package guard

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// lived returns a manager with members in every state that is saved.
func lived(t testing.TB, store Store) *Manager {
	t.Helper()
	d := network(1000)
	m, err := New(config(1), store, epoch)
	if err != nil {
		t.Fatal(err)
	}
	m.Update(d, epoch)
	m.Update(d.without(epoch.Add(time.Hour), m.cur.sample[7].id), epoch.Add(time.Hour))
	fail(t, m, 4, epoch)
	u := pick(t, m, epoch)
	u.Extended()
	u.Succeeded(epoch)
	u.Closed(epoch, true)
	m.cur.sample[9].bias.Disabled = true
	m.SetFilter(Filter{Entry: func(c Candidate) bool { return c.ID == relay(3).ID }}, epoch)
	m.SetFilter(Filter{}, epoch)
	return m
}

func TestStateRoundTrip(t *testing.T) {
	store := &MemStore{}
	m := lived(t, store)
	select {
	case <-m.Changed():
	default:
		t.Fatal("a change was not announced")
	}
	if err := m.Save(); err != nil {
		t.Fatal(err)
	}
	m2, err := New(config(2), store, epoch)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(encode(m2.sets), encode(m.sets)) {
		t.Fatalf("saved\n%s\nloaded\n%s", encode(m.sets), encode(m2.sets))
	}
	m2.Update(network(1000), epoch)
	want(t, "primary guards after a restart", primaries(m2), primaries(m))
	want(t, "sample after a restart", sample(m2), sample(m))
	if m2.cur.sample[9].filtered {
		t.Fatal("a guard dropped for path bias came back")
	}
	b := m2.cur.confirmed[0].bias
	if b.CircAttempts != 1 || b.ClosedWell != 1 {
		t.Fatalf("path bias counts: %+v", b)
	}
}

func TestSaveOnlyWhatChanged(t *testing.T) {
	store := &failingStore{}
	m := lived(t, store)
	if err := m.Save(); err == nil || !fault.Is(err, fault.Local) {
		t.Fatalf("a disk error must be reported: %v", err)
	}
	store.ok = true
	if err := m.Save(); err != nil || store.saves != 1 {
		t.Fatal("after a failure, the state is still to be saved")
	}
	if err := m.Save(); err != nil || store.saves != 1 {
		t.Fatal("saved without a change")
	}
}

type failingStore struct {
	MemStore
	ok    bool
	saves int
}

func (s *failingStore) Save(b []byte) error {
	if !s.ok {
		return errors.New("disk is full")
	}
	s.saves++
	return s.MemStore.Save(b)
}

func TestCorruptFileIsSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guards.json")
	m := lived(t, FileStore(path))
	if err := m.Save(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if fi, _ := os.Stat(path); fi.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v", fi.Mode())
	}
	var log bytes.Buffer
	cfg := config(3)
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	for name, bad := range map[string][]byte{
		"empty": {}, "truncated": good[:len(good)/2], "one byte short": good[:len(good)-3],
		"a digit changed": bytes.Replace(good, []byte(`"circ_attempts": 1`), []byte(`"circ_attempts": 2`), 1),
		"appended":        append(bytes.Clone(good), '{'),
		"another version": bytes.Replace(good, []byte(`"version": 1`), []byte(`"version": 2`), 1),
		"huge":            bytes.Repeat([]byte(" "), maxStateSize+1),
	} {
		if bytes.Equal(bad, good) {
			t.Fatalf("%s: the test changed nothing", name)
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		log.Reset()
		m, err := New(cfg, FileStore(path), epoch)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(m.cur.sample) != 0 || !strings.Contains(log.String(), "set aside") {
			t.Fatalf("%s: believed, or not reported: %s", name, &log)
		}
		if kept, err := os.ReadFile(path + ".corrupt"); err != nil || !bytes.Equal(kept, bad) {
			t.Fatalf("%s: not kept for people to look at", name)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Fatalf("%s: still in place", name)
		}
	}
}

func TestUnreadableFileIsAnError(t *testing.T) {
	if _, err := New(config(1), FileStore(t.TempDir()), epoch); !fault.Is(err, fault.Local) {
		t.Fatalf("a directory was read as guard state: %v", err)
	}
}

func TestSaveInAMissingDirectory(t *testing.T) {
	m := lived(t, FileStore(filepath.Join(t.TempDir(), "no", "guards.json")))
	if err := m.Save(); err == nil {
		t.Fatal("saved nowhere")
	}
}

func TestDecodeRefuses(t *testing.T) {
	fresh := func() (*set, []savedGuard) {
		m := lived(t, &MemStore{})
		var f savedFile
		if err := strict(encode(map[string]*set{setDefault: m.sets[setDefault]}), &f); err != nil {
			t.Fatal(err)
		}
		var saved map[string][]savedGuard
		if err := strict(f.Sets, &saved); err != nil {
			t.Fatal(err)
		}
		return nil, saved[setDefault]
	}
	for name, break_ := range map[string]func(l []savedGuard) []savedGuard{
		"twice":              func(l []savedGuard) []savedGuard { return append(l, l[3]) },
		"no identity":        func(l []savedGuard) []savedGuard { l[0].RSA = strings.Repeat("0", 40); return l },
		"bad identity":       func(l []savedGuard) []savedGuard { l[0].RSA = "zz"; return l },
		"bad Ed25519":        func(l []savedGuard) []savedGuard { l[0].Ed = "AAAA"; return l },
		"no date":            func(l []savedGuard) []savedGuard { l[0].AddedAt = time.Time{}; return l },
		"long nickname":      func(l []savedGuard) []savedGuard { l[0].Nickname = strings.Repeat("a", 20); return l },
		"negative count":     func(l []savedGuard) []savedGuard { l[0].Bias.Timeouts = -1; return l },
		"unlisted, no date":  func(l []savedGuard) []savedGuard { l[7].UnlistedSince = nil; return l },
		"listed, and a date": func(l []savedGuard) []savedGuard { l[7].Listed = true; return l },
		"place, no date":     func(l []savedGuard) []savedGuard { l[0].Confirmed = 2; return l },
		"place beyond": func(l []savedGuard) []savedGuard {
			for i := range l {
				if l[i].Confirmed > 0 {
					l[i].Confirmed = 9
				}
			}
			return l
		},
		"same place": func(l []savedGuard) []savedGuard {
			l[0].Confirmed, l[0].ConfirmedAt = 1, &epoch
			return l
		},
		"too many": func(l []savedGuard) []savedGuard { return make([]savedGuard, maxSaved+1) },
	} {
		_, l := fresh()
		if _, err := decodeSet(setDefault, l, epoch); err != nil {
			t.Fatalf("the good one: %v", err)
		}
		if _, err := decodeSet(setDefault, break_(l), epoch); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestDatesInTheFuture(t *testing.T) {
	m := lived(t, &MemStore{})
	sets, err := decode(encode(m.sets), epoch.Add(-400*day))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range sets[setDefault].sample {
		if g.addedAt.After(epoch.Add(-400*day)) || g.confirmedAt.After(epoch.Add(-400*day)) {
			t.Fatal("a date in the future keeps a guard beyond its lifetime")
		}
	}
}

// small returns a manager of two guards, one of them confirmed.
func small(t testing.TB) *Manager {
	m := start(t, network(2))
	pick(t, m, epoch).Succeeded(epoch)
	return m
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(small(f).sets))
	f.Add([]byte(`{"version":1,"sha256":"74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b","sets":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		sets, err := decode(b, epoch)
		if err != nil {
			return
		}
		again, err := decode(encode(sets), epoch)
		if err != nil {
			t.Fatalf("what was encoded is refused: %v", err)
		}
		if !reflect.DeepEqual(sets, again) {
			t.Fatal("what was encoded is not what is read")
		}
	})
}

// FuzzDecodeSets is FuzzDecode without the digest, which a fuzzer cannot guess.
func FuzzDecodeSets(f *testing.F) {
	var file savedFile
	if err := strict(encode(small(f).sets), &file); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(file.Sets))
	f.Fuzz(func(t *testing.T, b []byte) {
		var saved map[string][]savedGuard
		if strict(b, &saved) != nil {
			return
		}
		for name, list := range saved {
			s, err := decodeSet(name, list, epoch)
			if err != nil {
				continue
			}
			checkSet(t, s)
			encode(map[string]*set{name: s})
		}
	})
}
