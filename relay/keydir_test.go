package relay_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chivenet/chive/relay"
)

// TestKeyDir: the keys are where KeyDir says and nowhere else, they are the same with another
// data directory, and one relay at a time uses them.
func TestKeyDir(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "a", "keys")
	cfg := relay.Config{Network: silent(t), DataDir: t.TempDir(), KeyDir: keys, Nickname: "r", ORPort: []string{"127.0.0.1:0"}, AssumeReachable: true, ShutdownWait: -1}
	r, err := relay.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fp, _ := r.Fingerprint()
	var names []string
	made, err := os.ReadDir(keys)
	for _, e := range made {
		names = append(names, e.Name())
	}
	if err != nil || !slices.Contains(names, "secret_id_key") || !slices.Contains(names, "ed25519_master_id_secret_key") || !slices.Contains(names, "secret_onion_key_ntor") {
		t.Errorf("%q %v", names, err)
	}
	if _, err := os.Stat(filepath.Join(cfg.DataDir, "keys")); !errors.Is(err, os.ErrNotExist) {
		t.Error("keys in the data directory", err)
	}
	if st, err := os.Stat(keys); err != nil || st.Mode().Perm() != 0o700 {
		t.Error(st.Mode(), err)
	}
	other := cfg
	other.DataDir = t.TempDir()
	if second, err := relay.New(other); !errors.Is(err, relay.ErrConfig) || !strings.Contains(err.Error(), "key directory") {
		t.Error("two relays with the same keys:", err)
		if err == nil {
			second.Close()
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if r, err = relay.New(other); err != nil {
		t.Fatal(err)
	}
	if again, _ := r.Fingerprint(); again != fp {
		t.Errorf("%s and %s are one relay's fingerprints", fp, again)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	// In C tor, both may be one directory.
	other.DataDir = t.TempDir()
	other.KeyDir = other.DataDir
	if r, err = relay.New(other); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := os.Stat(filepath.Join(other.DataDir, "secret_id_key")); err != nil {
		t.Error(err)
	}
	other.KeyDir = t.TempDir()
	if err := r.Reload(other); !errors.Is(err, relay.ErrConfig) || !strings.Contains(err.Error(), "KeyDir") {
		t.Errorf("other keys while the relay runs: %v", err)
	}
}
