package main

import (
	"context"
	"io"
	"strings"
	"testing"
)

// TestWrongNumbers: numbers that mean nothing are refused, and not replaced.
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
		"negative pool": {func(s *relaySettings) { s.poolBytes = -1 }, "--pool-bytes"},
	} {
		s := &relaySettings{dataDir: t.TempDir(), onionPort: 30303, maxPeers: 50, poolBytes: 1 << 20}
		s.policy = "clearnet"
		c.set(s)
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it ends if it begins
		if err := s.run(ctx, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
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
