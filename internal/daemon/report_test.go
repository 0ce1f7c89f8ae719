package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/relay"
)

func TestPrintRelay(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var b strings.Builder
	printRelay(&b, &relay.Status{
		Network: "lab", Nickname: "r", Fingerprint: "AB", ORPort: []string{"192.0.2.1:9001"}, Started: now.Add(-time.Hour), Reachable: true,
		ValidAfter: now, Listed: true, Flags: "Fast", Weight: 7, Channels: 1, Connections: 2, Circuits: 3, Streams: 4, SigningKeyEnds: now, OnionKeySince: now,
		Memory: 300 << 20, MemoryBound: 448 << 20, MaxMemory: 512 << 20, MaxMemoryWhy: "as set",
	}, now)
	const want = `network    lab
relay      r AB at 192.0.2.1:9001
kind       relay: guard and middle
state      serving
up         1h0m0s
consensus  of 2026-01-02 03:04:05 UTC: Fast; weight 7
open       1 channels, 2 connections, 3 circuits, 4 streams
traffic    0 bytes in, 0 out; 0 cells in, 0 out
handshakes 0 done, 0 refused for load
bandwidth  0 bytes a second observed; no limit
memory     300 of 448 MiB for peers; max-memory is 512 MiB, as set
keys       signing key good until 2026-01-02 03:04:05 UTC; the master key is elsewhere; onion key of 2026-01-02 03:04:05 UTC
`
	if b.String() != want {
		t.Errorf("%s", b.String())
	}
	b.Reset()
	printRelay(&b, &relay.Status{MemoryFull: true}, now)
	if !strings.Contains(b.String(), "\nproblem    the memory for peers is nearly full: raise max-memory") {
		t.Errorf("%s", b.String())
	}
}
