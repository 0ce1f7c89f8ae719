package identity

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/gofrs/flock"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/program"
)

// beside makes the directories of a geth and of a sidecar beside it.
func beside(t *testing.T) Config {
	t.Helper()
	top := t.TempDir()
	cfg := Config{Dir: filepath.Join(top, "sidecar"), Geth: filepath.Join(top, "ethereum"), Now: time.Unix(1e9, 0)}
	for _, dir := range []string{cfg.Dir, filepath.Join(cfg.Geth, "geth")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	makeKey(t, filepath.Join(cfg.Geth, "geth", "nodekey"))
	makeKey(t, filepath.Join(cfg.Dir, sidecarKey))
	makeOnion(t, cfg.Dir)
	return cfg
}

func makeKey(t *testing.T, path string) {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err == nil {
		err = crypto.SaveECDSA(path, key)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func makeOnion(t *testing.T, dir string) {
	t.Helper()
	_, unlock, err := chive.OpenOnionKey(filepath.Join(dir, onionDir))
	if err == nil {
		err = unlock()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// contents are the files below the two directories with what is in them, but for locks, which are empty.
func contents(t *testing.T, cfg Config) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range []string{cfg.Dir, cfg.Geth} {
		if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := os.ReadFile(path)
			if len(raw) > 0 {
				all[path] = string(raw)
			}
			return err
		}); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	return all
}

// changed fails unless all keys are new, and all old ones are kept.
func changed(t *testing.T, cfg Config, old map[string]string, res Result) {
	t.Helper()
	now := contents(t, cfg)
	for path, was := range old {
		if now[path] == was {
			t.Errorf("%s has not changed", path)
		}
		found := false
		for _, is := range now {
			found = found || is == was
		}
		if !found {
			t.Errorf("what was in %s is gone", path)
		}
	}
	if len(now) != 2*len(old) {
		t.Errorf("%d files, and there were %d", len(now), len(old))
	}
	if pending, err := Pending(cfg.Dir); pending || err != nil {
		t.Error("the change did not end:", err)
	}
	if len(res.Kept) != 3 {
		t.Errorf("kept: %q", res.Kept)
	}
	for _, k := range res.Kept {
		if is, err := there(k); err != nil || !is {
			t.Errorf("%s is told as kept: %v", k, err)
		}
	}
}

// TestNew: all three keys are new, the old ones are kept, and the names told are those of the new keys.
func TestNew(t *testing.T) {
	cfg := beside(t)
	old := contents(t, cfg)
	res, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	changed(t, cfg, old, res)
	key, err := crypto.LoadECDSA(filepath.Join(cfg.Geth, "geth", "nodekey")) // as geth reads it
	if err != nil || enode.PubkeyToIDV4(&key.PublicKey) != res.Node {
		t.Errorf("geth has %v, and %s was told: %v", key, res.Node, err)
	}
	if _, err := crypto.LoadECDSA(filepath.Join(cfg.Dir, sidecarKey)); err != nil {
		t.Error(err)
	}
	host, err := os.ReadFile(filepath.Join(cfg.Dir, onionDir, "hostname"))
	if err != nil || strings.TrimSpace(string(host)) != res.Onion {
		t.Errorf("the onion is %s, and %s was told: %v", host, res.Onion, err)
	}
	second, err := New(cfg) // in the same second: what was kept stays
	if err != nil || second.Onion == res.Onion || len(contents(t, cfg)) != 3*len(old) {
		t.Errorf("a second change: %v, %v", second, err)
	}
}

// TestRelay: a relay has two keys. One that --node-key names keeps its form.
func TestRelay(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Now: time.Unix(1e9, 0)}
	makeKey(t, filepath.Join(cfg.Dir, relayKey))
	makeOnion(t, cfg.Dir)
	if res, err := New(cfg); err != nil || len(res.Kept) != 2 {
		t.Errorf("%v, %v", res, err)
	}
	cfg.NodeKey = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(cfg.NodeKey, []byte("0x"+strings.Repeat("01", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(cfg.NodeKey)
	if err != nil || len(raw) != 66 || string(raw[:2]) != "0x" || strings.HasPrefix(string(raw), "0x0101") {
		t.Errorf("the new key is %q: %v", raw, err)
	}
}

// TestInterrupted ends a change at each of its renames, as a crash does, and calls again.
func TestInterrupted(t *testing.T) {
	for stop := range 6 {
		cfg := beside(t)
		if stop%2 == 1 { // geth's key has a flag
			cfg.NodeKey = filepath.Join(cfg.Geth, "geth", "nodekey")
		}
		old := contents(t, cfg)
		n := 0
		broken := cfg
		broken.rename = func(from, to string) error {
			if n++; n > stop {
				return errors.New("the machine stopped")
			}
			return os.Rename(from, to)
		}
		if _, err := New(broken); err == nil {
			t.Fatal("a change that stopped is told as done")
		}
		pending, err := Pending(cfg.Dir)
		if err != nil || pending != (stop > 0) { // nothing was done before the first
			t.Fatalf("after %d renames: pending %t, %v", stop, pending, err)
		}
		if besides := beside(t); pending {
			if _, err := New(Config{Dir: cfg.Dir, Geth: besides.Geth}); err == nil {
				t.Error("a change was finished with other flags than it had")
			}
		}
		res, err := New(cfg)
		if err != nil || res.Finished != pending {
			t.Fatalf("after %d renames: %v, %v", stop, res, err)
		}
		changed(t, cfg, old, res)
	}
}

// TestKeyBetween: geth runs after an interruption and makes a key, which is kept, too.
func TestKeyBetween(t *testing.T) {
	cfg := beside(t)
	n := 0
	cfg.rename = func(from, to string) error {
		if n++; n > 1 {
			return errors.New("the machine stopped")
		}
		return os.Rename(from, to)
	}
	if _, err := New(cfg); err == nil {
		t.Fatal("a change that stopped is told as done")
	}
	path := filepath.Join(cfg.Geth, "geth", "nodekey")
	makeKey(t, path)
	between, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cfg.rename = nil
	res, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(res.Kept[0]); err != nil || string(kept) != string(between) {
		t.Errorf("the key of between is not kept: %q, %v", res.Kept, err)
	}
}

// TestUndone fails one rename: the old keys are in their places, and nothing else stays.
func TestUndone(t *testing.T) {
	for fail := range 6 {
		cfg := beside(t)
		old := contents(t, cfg)
		n := 0
		cfg.rename = func(from, to string) error {
			if n++; n == fail+1 {
				return errors.New("no")
			}
			return os.Rename(from, to)
		}
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "no key has changed") {
			t.Errorf("rename %d: %v", fail, err)
		}
		if now := contents(t, cfg); !maps.Equal(now, old) {
			t.Errorf("rename %d: the files are %v, and were %v", fail, now, old)
		}
	}
}

// TestRefused: what does not fit, and a geth that runs.
func TestRefused(t *testing.T) {
	cfg := beside(t)
	old := contents(t, cfg)
	lock := flock.New(filepath.Join(cfg.Geth, "geth", "LOCK")) // as geth has it
	if got, err := lock.TryLock(); err != nil || !got {
		t.Fatal(got, err)
	}
	if _, err := New(cfg); !errors.Is(err, program.ErrInUse) {
		t.Errorf("beside a geth that runs: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	relay := t.TempDir()
	makeKey(t, filepath.Join(relay, relayKey))
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Dir: cfg.Dir}, "--geth is needed"},
		{Config{Dir: cfg.Dir, Geth: t.TempDir()}, "is no data directory of geth"},
		{Config{Dir: relay, Geth: cfg.Geth}, "no sidecar has used"},
		{Config{Dir: t.TempDir()}, "nothing to change"},
		{Config{Dir: relay, NodeKey: filepath.Join(relay, "none")}, "--node-key"},
	} {
		if _, err := New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, and not %q", c.cfg, err, c.want)
		}
	}
	if now := contents(t, cfg); !maps.Equal(now, old) {
		t.Errorf("the files are %v, and were %v", now, old)
	}
}
