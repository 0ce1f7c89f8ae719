package main

import (
	"context"
	"io"
	"strings"
	"testing"
)

// hexKey is a public key of a node, and someOnion an onion.
const (
	hexKey    = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8"
	someOnion = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion"
)

// TestWrongNumbers: numbers and addresses that mean nothing are refused, and not replaced, by an error that begins with the
// flag.
func TestWrongNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*relaySettings)
		want string
	}{
		"port":          {func(s *relaySettings) { s.onionPort = -1 }, "--listen: -1 "},
		"large port":    {func(s *relaySettings) { s.onionPort = 65536 }, "--listen: 65536 "},
		"peers":         {func(s *relaySettings) { s.maxPeers = -1 }, "--maxpeers"},
		"no peers":      {func(s *relaySettings) { s.maxPeers = 0 }, "--maxpeers"},
		"no pool":       {func(s *relaySettings) { s.poolBytes = 0 }, "--pool-bytes"},
		"classes":       {func(s *relaySettings) { s.classes = "gossip=onion" }, "--classes: gossip=onion: policy clearnet has no peers of that kind"},
		"rpc for all":   {func(s *relaySettings) { s.rpc = "0.0.0.0:8545" }, `--rpc: "0.0.0.0:8545" is not an address of loopback`},
		"metrics":       {func(s *relaySettings) { s.metrics = "192.0.2.1:9188" }, `--metrics: "192.0.2.1:9188" is not an address of loopback`},
		"no tree":       {func(s *relaySettings) { s.trees = []string{"enrtree://x"} }, "--tree: "},
		"plain list":    {func(s *relaySettings) { s.lists = []string{"http://lists.example/"} }, `--nodes: "http://lists.example/": want https, or http to an onion`},
		"plain doh":     {func(s *relaySettings) { s.resolvers = []string{"http://192.0.2.1/"} }, "--doh: "},
		"doh alone":     {func(s *relaySettings) { s.resolvers = []string{"https://192.0.2.1/"} }, "--doh is about --tree"},
		"genesis":       {func(s *relaySettings) { s.genesis = "settings_test.go" }, "--genesis: settings_test.go: it is no genesis"},
		"no genesis":    {func(s *relaySettings) { s.genesis = "nowhere" }, "--genesis: "},
		"a name":        {func(s *relaySettings) { s.static = []string{"enode://" + hexKey + "@node.example:30303"} }, "--static: the host of the enode URL is a name"},
		"another way":   {func(s *relaySettings) { s.static = []string{"enode://" + hexKey + "@" + someOnion + ":30303"} }, "--static, node 1: "},
		"negative pool": {func(s *relaySettings) { s.poolBytes = -1 }, "--pool-bytes"},
	} {
		s := &relaySettings{dataDir: t.TempDir(), onionPort: 30303, maxPeers: 50, poolBytes: 1 << 20}
		s.policy = "clearnet"
		c.set(s)
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it ends if it begins
		if err := s.run(ctx, io.Discard, io.Discard); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, flag := range []string{"--listen", "--maxpeers", "--max-inbound"} {
		cmd := sidecarCommand()
		cmd.SetArgs([]string{"--ipc", "/nowhere", "--data-dir", t.TempDir(), flag, "0"})
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), flag+" 0: it is 1 at least") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// TestOwnDir: a relay and a sidecar do not use one directory at the same time.
func TestOwnDir(t *testing.T) {
	dir := t.TempDir()
	_, lock, err := ownDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &relaySettings{dataDir: dir, onionPort: 30303, maxPeers: 50, poolBytes: 1 << 20}
	s.policy = "clearnet"
	relay := func(ctx context.Context) error { return s.run(ctx, io.Discard, io.Discard) }
	side := func(ctx context.Context) error {
		cmd := sidecarCommand()
		cmd.SetArgs([]string{"--ipc", "/nowhere", "--data-dir", dir, "--tor-proxy", "127.0.0.1:1"})
		return cmd.ExecuteContext(ctx)
	}
	ended, end := context.WithCancel(t.Context())
	end() // it ends if it begins
	for name, run := range map[string]func(context.Context) error{"relay": relay, "sidecar": side} {
		if err := run(ended); err == nil || !strings.Contains(err.Error(), "uses "+dir+" already") || !strings.Contains(err.Error(), "--data-dir") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if err := relay(ended); err != nil {
		t.Error("afterwards:", err)
	}
}
