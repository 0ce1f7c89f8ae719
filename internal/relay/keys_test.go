package relay

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
)

var quiet = slog.New(slog.DiscardHandler)

const day = 24 * time.Hour

func load(t *testing.T, dir string, now time.Time) *Keys {
	t.Helper()
	k, err := LoadKeys(dir, now, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// LoadKeys is loadKeys of a relay that has its master key.
func LoadKeys(dataDir string, now time.Time, log *slog.Logger) (*Keys, error) {
	return loadKeys(keyDirOf(dataDir), now, false, nil, log)
}

// A restart keeps the keys.
func TestKeysStay(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	a, b := load(t, dir, now), load(t, dir, now.Add(day))
	if a.ID != b.ID || !a.signing.Equal(b.signing) || a.Onion()[0].Public() != b.Onion()[0].Public() || len(b.Onion()) != 1 {
		t.Error("other keys after a restart")
	}
	st, err := os.Stat(filepath.Join(dir, "keys", fileMaster))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Error(st.Mode(), err)
	}
}

// Keys that other users can read are used, and the log warns of them.
func TestKeysExposed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing of access on Windows")
	}
	dir, now := t.TempDir(), time.Now()
	var words bytes.Buffer
	log := slog.New(slog.NewTextHandler(&words, nil))
	load := func() {
		t.Helper()
		if _, err := LoadKeys(dir, now, log); err != nil {
			t.Fatal(err)
		}
	}
	load()
	load()
	if words.Len() > 0 {
		t.Errorf("keys that are as they were made: %s", &words)
	}
	if err := errors.Join(os.Chmod(filepath.Join(dir, "keys"), 0o755), os.Chmod(filepath.Join(dir, "keys", fileMaster), 0o644)); err != nil {
		t.Fatal(err)
	}
	load()
	if s := words.String(); !strings.Contains(s, fileMaster) || strings.Contains(s, fileRSA) {
		t.Errorf("one of them can be read: %s", s)
	}
}

// While a machine is suspended, the monotonic clock stops: by that clock, keys
// would be used after they have expired.
func TestKeysEndByTheCalendar(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	k := load(t, dir, now)
	check := func() {
		t.Helper()
		_, signingEnds, onionSince := k.ages()
		for what, at := range map[string]time.Time{"link keys": k.Link().Expires, "signing key": signingEnds, "onion key": onionSince} {
			if at != at.Round(0) {
				t.Errorf("the %s: %v has a monotonic reading", what, at)
			}
		}
	}
	check()
	for range 3 { // each time, all keys are renewed
		now = now.Add(40 * day)
		if _, err := k.Renew(now, 28*day, 7*day); err != nil {
			t.Fatal(err)
		}
		check()
	}
	// The clock was ahead and is corrected: lifetimes count from then on.
	link, now := k.Link(), now.Add(-100*day)
	if _, err := k.Renew(now, 28*day, 7*day); err != nil {
		t.Fatal(err)
	}
	if _, _, since := k.ages(); k.Link() == link || k.Link().Expires.Sub(now) > 3*day || since.After(now) {
		t.Errorf("at %v: link keys until %v, the onion key since %v", now, k.Link().Expires, since)
	}
	link = k.Link()
	if _, err := k.Renew(now.Add(-time.Minute), 28*day, 7*day); err != nil || k.Link() != link {
		t.Error("other link keys after a correction of a minute", err)
	}
	if _, err := k.Renew(now.Add(linkRenewAge-time.Second), 28*day, 7*day); err != nil || k.Link() != link {
		t.Error("other link keys before their time", err)
	}
	if _, err := k.Renew(now.Add(linkRenewAge), 28*day, 7*day); err != nil || k.Link() == link {
		t.Error("the link keys are two hours old, and the same", err)
	}
}

func TestStale(t *testing.T) {
	const long = 1000 * time.Hour
	for _, c := range []struct {
		age, held    time.Duration
		bw, observed uint64
		want         bool
	}{
		{0, long, 0, 0, false}, {17 * time.Hour, long, 1500, 1000, false}, {17 * time.Hour, long, 600, 1000, false},
		{18 * time.Hour, 0, 1000, 1000, true}, {3 * time.Hour, 3 * time.Hour, 2001, 1000, true}, {3 * time.Hour, 3 * time.Hour, 499, 1000, true},
		{time.Minute, 3*time.Hour - 1, 499, 1000, false}, {-time.Minute, long, 1000, 1000, false}, {-2 * time.Hour, 0, 1000, 1000, true}, {-365 * day, 0, 1000, 1000, true},
		// The first change, and the first bandwidth at all, are published at once.
		{time.Minute, long, 2001, 1000, true}, {time.Minute, time.Minute, 1, 0, true},
	} {
		if got := stale(c.age, c.held, c.bw, c.observed); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// The key files have the headers that C tor expects.
func TestKeyFileFormats(t *testing.T) {
	dir := t.TempDir()
	load(t, dir, time.Now())
	for name, want := range map[string]struct {
		head string
		size int
	}{
		fileMaster:       {"== ed25519v1-secret: type0 ==\x00\x00\x00", 96},
		fileMasterPublic: {"== ed25519v1-public: type0 ==\x00\x00\x00", 64},
		fileSigning:      {"== ed25519v1-secret: type4 ==\x00\x00\x00", 96},
		fileSigningCert:  {"== ed25519v1-cert: type4 ==\x00", 32 + 140},
		fileOnion:        {"== c25519v1: onion ==\x00", 96},
		fileRSA:          {"-----BEGIN RSA PRIVATE KEY-----\n", 0},
	} {
		b, err := os.ReadFile(filepath.Join(dir, "keys", name))
		if err != nil || !strings.HasPrefix(string(b), want.head) || want.size > 0 && len(b) != want.size {
			t.Errorf("%s: %d bytes, %q, %v", name, len(b), b[:min(40, len(b))], err)
		}
	}
}

func TestOnionKeyRotation(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	k := load(t, dir, now)
	first := k.Onion()[0].Public()
	if changed, err := k.Renew(now.Add(27*day), 28*day, 7*day); err != nil || k.Onion()[0].Public() != first {
		t.Fatal(changed, err)
	}
	at := now.Add(28*day + time.Minute)
	changed, err := k.Renew(at, 28*day, 7*day)
	if err != nil || !changed || len(k.Onion()) != 2 || k.Onion()[0].Public() == first || k.Onion()[1].Public() != first {
		t.Fatal("no rotation", changed, err)
	}
	// Clients with an old consensus continue to use the old key for some time.
	if _, err := k.Renew(at.Add(6*day), 28*day, 7*day); err != nil || len(k.Onion()) != 2 {
		t.Error("the grace is too short", err)
	}
	if _, err := k.Renew(at.Add(8*day), 28*day, 7*day); err != nil || len(k.Onion()) != 1 {
		t.Error("the grace does not end", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "keys", fileOnionOld)); !os.IsNotExist(err) {
		t.Error("the old key is still on the disk", err)
	}
}

func TestSigningKeyRenewal(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	k := load(t, dir, now)
	old := k.signing
	if _, err := k.Renew(now.Add(10*day), 90*day, 7*day); err != nil || !k.signing.Equal(old) {
		t.Fatal(err)
	}
	if changed, err := k.Renew(now.Add(24*day), 90*day, 7*day); err != nil || !changed || k.signing.Equal(old) {
		t.Fatal(changed, err)
	}
	if d := k.Desc(); d.Signing.Public() != k.signing.Public() || d.Ed != k.ID.Ed {
		t.Error("the descriptor's keys are old")
	}
	if k.Link().Expires.Before(now.Add(25 * day)) {
		t.Error("the link keys were not renewed")
	}
}

// The master key may be kept elsewhere: the relay runs until its signing key's
// certificate expires, and then tells the operator what to do.
func TestOfflineMaster(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	k := load(t, dir, now)
	if err := os.Remove(filepath.Join(dir, "keys", fileMaster)); err != nil {
		t.Fatal(err)
	}
	off := load(t, dir, now.Add(day))
	if off.ID != k.ID || off.master != nil {
		t.Error("another identity")
	}
	_, err := LoadKeys(dir, now.Add(40*day), quiet)
	if !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "chive keys relay") {
		t.Error(err)
	}
}

func TestDamagedKeys(t *testing.T) {
	for name, want := range map[string]string{
		fileMaster: "not a file of the kind", fileRSA: "not a PEM file", fileOnion: "not a file of the kind", fileMasterPublic: "not a file of the kind",
	} {
		dir, now := t.TempDir(), time.Now()
		load(t, dir, now)
		if err := os.WriteFile(filepath.Join(dir, "keys", name), []byte("garbage"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadKeys(dir, now, quiet); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A public and a secret half that do not match.
	dir := t.TempDir()
	k := load(t, dir, time.Now())
	other, err := cert.GenerateExpanded(strings.NewReader(strings.Repeat("x", 64)))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.dir.writeTagged(fileMaster, tagMaster, other.Bytes()); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKeys(dir, time.Now(), quiet); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
}
