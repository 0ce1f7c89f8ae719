package authority

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

// The single authority of a network publishes a consensus, and does so again
// after a restart with the same keys.
func TestAuthority(t *testing.T) {
	dir := t.TempDir()
	keys, err := MakeKeys(filepath.Join(dir, "keys"), "127.0.0.1:1", 1, []byte("a passphrase"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := MakeKeys(filepath.Join(dir, "keys"), "", 2, []byte("a passphrase"))
	if err != nil || again.V3Ident != keys.V3Ident || !again.Expires.After(keys.Expires) {
		t.Fatalf("%v: %+v, %+v", err, keys, again)
	}
	if _, err := MakeKeys(filepath.Join(dir, "keys"), "", 2, []byte("wrong")); err == nil {
		t.Error("a wrong passphrase opened the identity key")
	}
	nw, err := chive.ParseNetwork(fmt.Appendf(nil, "name = \"one\"\n[[authority]]\nnickname = \"a\"\nv3ident = %q\nrsa = %q\ned25519 = %q\norport = [\"127.0.0.1:1\"]\ndirport = \"127.0.0.1:2\"\n[testing]\nallow_private_addresses = true\n", keys.V3Ident, keys.RSA, keys.Ed25519))
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Network: nw, DataDir: dir, Nickname: "a", ORPort: "127.0.0.1:0", DirPort: "127.0.0.1:0", Testing: true, Params: map[string]int32{},
		VotingInterval: 10 * time.Second, VoteDelay: 2 * time.Second, DistDelay: 2 * time.Second,
		InitialVotingInterval: time.Second, InitialVoteDelay: 100 * time.Millisecond, InitialDistDelay: 100 * time.Millisecond}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Params["circwindow"] = 500
	if err := a.Reload(cfg); !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "Params") {
		t.Errorf("parameters that were changed in place: %v", err)
	}
	delete(cfg.Params, "circwindow")
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("two authorities in one directory: %v", err)
	}
	waitForConsensus(t, dir)
	for range 2 { // Close may be called again
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	select {
	case <-a.Done():
	default:
		t.Error("Close came back before the authority's end")
	}
	if err := a.Err(); err != nil {
		t.Errorf("the authority was closed, and says %v", err)
	}
	if err := a.Reload(a.Config()); !fault.Is(err, fault.Closed) {
		t.Errorf("Reload after Close: %v", err)
	}
	if a, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	if a.inner.Consensus(netdoc.FlavorMicrodesc) == nil {
		t.Error("no consensus after a restart")
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	for _, bad := range []func(*Config){
		func(c *Config) { c.Network = nil }, func(c *Config) { c.Nickname = "no spaces" }, func(c *Config) { c.ORPort = "x" },
		func(c *Config) { c.VoteDelay = 9 * time.Second }, func(c *Config) { c.RelayList = "/nonexistent" },
		func(c *Config) { c.ApprovedOnly = true }, func(c *Config) { c.PromptFirstRound, c.Testing = true, false },
	} {
		c := cfg
		bad(&c)
		if a, err := New(c); err == nil {
			t.Errorf("%+v was accepted", c)
			a.Close()
		}
	}
	promptFirstRound(t, cfg)
	damage(t, cfg)
}

// waitForConsensus waits until an authority has written a consensus into its data directory.
func waitForConsensus(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if _, err := os.Stat(filepath.Join(dir, "state", "consensus-microdesc")); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("no consensus")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// promptFirstRound starts the authority anew, with its keys alone. Its first consensus does not wait for the interval's end.
func promptFirstRound(t *testing.T, cfg Config) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "keys"), os.DirFS(filepath.Join(cfg.DataDir, "keys"))); err != nil {
		t.Fatal(err)
	}
	cfg.DataDir, cfg.PromptFirstRound = dir, true
	cfg.InitialVotingInterval, cfg.InitialVoteDelay, cfg.InitialDistDelay = 24*time.Hour, 10*time.Hour, 10*time.Hour
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	waitForConsensus(t, dir)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// Support048Clients decides on the consensus methods that the authority votes for.
func TestSupport048Clients(t *testing.T) {
	nw, err := chive.ParseNetwork([]byte("name = \"one\"\n[[authority]]\nnickname = \"a\"\nv3ident = \"" + strings.Repeat("A", 40) + "\"\nrsa = \"" + strings.Repeat("B", 40) + "\"\norport = [\"127.0.0.1:1\"]\n[testing]\nallow_private_addresses = true\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, support := range []bool{false, true} {
		cfg := Config{Network: nw, DataDir: t.TempDir(), Nickname: "a", ORPort: "127.0.0.1:1", DirPort: "127.0.0.1:2", Support048Clients: support}
		in, err := cfg.inner()
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool][]int{true: authority.Methods048()}[support]; !slices.Equal(in.Methods, want) {
			t.Errorf("%v: methods %v, not %v", support, in.Methods, want)
		}
	}
}

// damage starts an authority with each of its files damaged in turn. A file that
// can be restored from others is set aside; for each other file the error names
// it.
func damage(t *testing.T, cfg Config) {
	const garbage = "not what it should be\n"
	for file, aside := range map[string]bool{
		"state/certificates": true, "state/descriptors": true, "state/consensus-ns": true, "state/consensus-microdesc": true,
		"state/histories.json": false, "state/shared-random.json": false, "state/key-pins.json": false,
		"keys/authority_certificate": false, "keys/authority_signing_key": false, "keys/secret_id_key": false,
	} {
		path := filepath.Join(cfg.DataDir, file)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(garbage), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := New(cfg)
		switch {
		case !aside && (!fault.Is(err, fault.Config) || !strings.Contains(err.Error(), filepath.Base(file))):
			t.Errorf("%s: %v", file, err)
		case aside && err != nil:
			t.Errorf("%s: %v", file, err)
		case aside:
			if b, err := os.ReadFile(path + ".corrupt"); err != nil || string(b) != garbage {
				t.Errorf("%s: not set aside: %q, %v", file, b, err)
			}
		}
		if err == nil {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
