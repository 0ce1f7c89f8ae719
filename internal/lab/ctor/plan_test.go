package ctor

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestHoldOffset: no scheduled vote comes near a network's start, whatever the
// time of day.
func TestHoldOffset(t *testing.T) {
	for s := range int64(holdInterval) {
		now := time.Unix(1700000000+s, 0)
		offset := holdOffset(now, 5*time.Minute)
		// The start of the next interval, as tor computes it.
		next := now.Unix()/holdInterval*holdInterval + int64(offset)
		for next <= now.Unix() {
			next += holdInterval
		}
		if wait := next - now.Unix(); wait < 290 {
			t.Fatalf("at %v, offset %d: a vote after %d seconds", now, offset, wait)
		}
	}
}

// TestRelayKeys checks the key files against the standard library's signature:
// an expanded key whose public key is the one beside it.
func TestRelayKeys(t *testing.T) {
	dir := t.TempDir()
	id, err := writeRelayKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := os.ReadFile(filepath.Join(dir, "keys", "ed25519_master_id_public_key"))
	if err != nil {
		t.Fatal(err)
	}
	if len(pub) != 64 || !strings.HasPrefix(string(pub), "== ed25519v1-public: type0 ==\x00\x00\x00") || string(pub[32:]) != string(id.Ed[:]) {
		t.Errorf("public key file %q", pub)
	}
	sec, err := os.ReadFile(filepath.Join(dir, "keys", "ed25519_master_id_secret_key"))
	if err != nil {
		t.Fatal(err)
	}
	if len(sec) != 96 || len(id.Ed) != ed25519.PublicKeySize || sec[32]&7 != 0 || sec[63]&0xc0 != 0x40 {
		t.Error("the secret key is not in the expanded, clamped form")
	}
}

// TestTors: a node runs the tor that is given for its nickname, else the one for its role.
func TestTors(t *testing.T) {
	dir := t.TempDir()
	program := func(name string) string {
		path := filepath.Join(dir, name, "tor")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{path, filepath.Join(dir, name, "tor-gencert")} {
			if err := os.WriteFile(p, []byte("#!/bin/sh\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	usual, auth, one := program("usual"), program("auth"), program("one")
	opts := Options{TorPath: usual, Tors: map[string]string{"auth": auth, "auth1": one, "exit0": one, "client": one}, Dir: t.TempDir()}
	nw, err := plan(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer nw.Close()
	for name, want := range map[string]string{"auth0": auth, "auth1": one, "relay0": usual, "exit0": one, "exit1": usual} {
		if got := nw.torOf(nw.Node(name)); got != want {
			t.Errorf("%s: %s, not %s", name, got, want)
		}
	}
	if got := nw.torOf(&Node{Name: "added0", Role: Client}); got != one {
		t.Errorf("an added client: %s", got)
	}
	for key, path := range map[string]string{"auth9": one, "relay0": filepath.Join(dir, "nothing")} {
		opts.Tors = map[string]string{key: path}
		if nw, err := plan(opts); err == nil {
			t.Errorf("%s: %s was taken", key, path)
			nw.Close()
		}
	}
}

// TestNames: a node has the nickname that is given for its usual one; what names no node, or two alike, is refused.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "tor")
	for _, p := range []string{program, filepath.Join(dir, "tor-gencert")} {
		if err := os.WriteFile(p, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for names, want := range map[[2]string]string{{"auth1", "moria"}: "", {"auth3", "moria"}: `no node "auth3"`, {"auth1", "relay0"}: "two nodes are called relay0"} {
		nw, err := plan(Options{TorPath: program, Dir: t.TempDir(), Names: map[string]string{names[0]: names[1]}})
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%v: %v", names, err)
		case err == nil:
			if nw.Node("moria") == nil || nw.Node("auth1") != nil || nw.Node("moria").Role != Authority {
				t.Errorf("%v: %v", names, nw.nicknames())
			}
			nw.Close()
		}
	}
}
