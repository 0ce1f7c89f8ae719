package main

import (
	"context"
	"io"
	"strings"
	"testing"
)

// TestWrongNumbers: numbers that mean nothing are refused, and not replaced.
func TestWrongNumbers(t *testing.T) {
	for name, set := range map[string]func(*relaySettings){
		"port":       func(s *relaySettings) { s.onionPort = -1 },
		"large port": func(s *relaySettings) { s.onionPort = 65536 },
		"peers":      func(s *relaySettings) { s.maxPeers = -1 },
	} {
		s := &relaySettings{dataDir: t.TempDir(), onionPort: 30303, maxPeers: 50}
		s.policy = "clearnet"
		set(s)
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it ends if it begins
		if err := s.run(ctx, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "peers: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
