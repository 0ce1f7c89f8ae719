package circuit_test

import (
	"io"
	"runtime"
	"testing"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// source sends without end.
func source(s *stream.Stream) {
	b := make([]byte, 31*498)
	for {
		if _, err := s.Write(b); err != nil {
			return
		}
	}
}

// download opens a stream that never ends through two relays and an exit.
func download(t testing.TB, o circuit.HopOptions) *stream.Stream {
	t.Helper()
	serve := simnet.Options{Serve: source}
	c := build(t, newClient(t), o, simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{}), simnet.New(t, serve))
	s, err := stream.Dial(deadline(t), c.Last(), "source", 80)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRelayedCellsAllocateNothing: what a client, two relays and an exit
// allocate for a cell, all together, is a few hundredths of an object for
// each: SENDMEs and timers, nothing of the cells.
func TestRelayedCellsAllocateNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes pools forget")
	}
	s := download(t, vegas)
	move := func(n int64) {
		if _, err := io.CopyN(io.Discard, s, n); err != nil {
			t.Fatal(err)
		}
	}
	move(8 << 20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const size = 16 << 20
	move(size)
	runtime.ReadMemStats(&after)
	cells := float64(size) / 498 * 4 // handled by four parties
	if per := float64(after.Mallocs-before.Mallocs) / cells; per > 0.05 {
		t.Errorf("%.3f objects are allocated for a cell", per)
	} else {
		t.Logf("%.4f objects for a cell", per)
	}
}

// BenchmarkRelayForward is a stream through three relays, all in this process.
func BenchmarkRelayForward(b *testing.B) {
	s := download(b, vegas)
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := io.CopyN(io.Discard, s, 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}
