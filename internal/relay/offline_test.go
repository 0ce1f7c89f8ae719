package relay

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// copyKeys copies key files as an operator would, from where the master key is
// kept.
func copyKeys(t *testing.T, from, dataDir string, names []string) {
	t.Helper()
	to := filepath.Join(dataDir, "keys")
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		b, err := os.ReadFile(filepath.Join(from, n))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, n), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A relay whose master key was never on its machine: its keys are made elsewhere,
// it warns in time, new keys take effect while it runs, and only an expired key
// stops it.
func TestOfflineMasterLife(t *testing.T) {
	vault, dir, now := t.TempDir(), t.TempDir(), time.Now()
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	if _, err := loadKeys(keyDirOf(dir), now, true, nil, log); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "chive keys relay") {
		t.Error("an offline master key that is nowhere", err)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "keys")); err != nil || len(entries) != 0 {
		t.Error("keys were made", entries, err)
	}
	made, err := CertifyKeys(vault, 30*day, now)
	if err != nil {
		t.Fatal(err)
	}
	if over := made.Expires.Sub(now.Add(30 * day)); !made.Expires.Equal(made.Expires.Truncate(time.Hour)) || over < 0 || over >= time.Hour {
		t.Errorf("made at %v for 30 days, it is said to expire at %v", now, made.Expires)
	}
	copyKeys(t, vault, dir, made.Copy)
	k, err := loadKeys(keyDirOf(dir), now, true, nil, log)
	if err != nil || k.ID != made.ID || k.master != nil {
		t.Fatal(k, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "keys", fileMaster)); !os.IsNotExist(err) {
		t.Error("the master key is on the relay's machine", err)
	}
	if _, err := k.Renew(now.Add(20*day), maxRotation, maxRotation); err != nil || said.Len() != 0 {
		t.Error("warned too early", said.String(), err)
	}
	at := now.Add(24 * day)
	for range 3 {
		if _, err := k.Renew(at, maxRotation, maxRotation); err != nil {
			t.Error(err)
		}
		at = at.Add(time.Hour)
	}
	if n := strings.Count(said.String(), "chive keys relay"); n != 1 {
		t.Errorf("%d warnings of three looks on one day: %s", n, said.String())
	}

	// An incomplete copy changes nothing.
	again, err := CertifyKeys(vault, 60*day, at)
	if err != nil || again.ID != made.ID {
		t.Fatal(again, err)
	}
	old, oldLink := k.Desc().SigningCert, k.Link()
	copyKeys(t, vault, dir, []string{fileSigning})
	if err := k.Reread(at); !fault.Is(err, fault.Config) || !bytes.Equal(k.Desc().SigningCert, old) {
		t.Error(err)
	}
	copyKeys(t, vault, dir, []string{fileSigningCert})
	if err := k.Reread(at); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Renew(at, maxRotation, maxRotation); err != nil {
		t.Fatal(err)
	}
	if d := k.Desc(); bytes.Equal(d.SigningCert, old) || k.Link() == oldLink {
		t.Error("the new signing key is not in use")
	}
	if _, err := k.Renew(at.Add(50*day), maxRotation, maxRotation); err != nil {
		t.Error(err)
	}
	if _, err := k.Renew(at.Add(61*day), maxRotation, maxRotation); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), whatToDo) {
		t.Error("an expired key", err)
	}
	if _, err := loadKeys(keyDirOf(dir), at.Add(61*day), true, nil, log); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), whatToDo) {
		t.Error("a start with an expired key", err)
	}
	// If the master key is here nevertheless, it is not used.
	copyKeys(t, vault, dir, []string{fileMaster})
	said.Reset()
	if k, err = loadKeys(keyDirOf(dir), at, true, nil, log); err != nil || k.master != nil || !strings.Contains(said.String(), "move it away") {
		t.Error(err, said.String())
	}
}

func TestCertifyKeysRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, life := range []time.Duration{0, time.Hour, 11 * 365 * day} {
		if _, err := CertifyKeys(dir, life, time.Now()); !fault.Is(err, fault.Config) {
			t.Errorf("%v: %v", life, err)
		}
	}
	if _, err := CertifyKeys(dir, 30*day, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, fileMaster)); err != nil {
		t.Fatal(err)
	}
	if _, err := CertifyKeys(dir, 30*day, time.Now()); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "it is what signs") {
		t.Error("a certificate without the key that signs it", err)
	}
}

// The onion key's age and the previous onion key survive a restart, and a start
// without a consensus rotates no key that the consensus may want to keep longer.
func TestOnionKeyAcrossRestarts(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	k := load(t, dir, now)
	first := k.Onion()[0].Public()
	if k = load(t, dir, now.Add(40*day)); k.Onion()[0].Public() != first {
		t.Fatal("rotated at a start")
	}
	at := now.Add(40*day + time.Hour)
	if changed, err := k.Renew(at, 28*day, 7*day); err != nil || !changed {
		t.Fatal(changed, err)
	}
	// The file's time is when the key was made.
	if err := os.Chtimes(filepath.Join(dir, "keys", fileOnion), at, at); err != nil {
		t.Fatal(err)
	}
	second := k.Onion()[0].Public()
	k = load(t, dir, at.Add(3*day))
	if on := k.Onion(); len(on) != 2 || on[0].Public() != second || on[1].Public() != first {
		t.Fatal("the grace does not outlive a restart", len(on))
	}
	if _, err := k.Renew(at.Add(8*day), 28*day, 7*day); err != nil || len(k.Onion()) != 1 {
		t.Error(err, len(k.Onion()))
	}
}
