package circuit_test

import (
	"bytes"
	"io"
	"runtime"
	"testing"

	"github.com/chivenet/chive/internal/cell"
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

// rendezvous opens such a stream to an onion service: each side has a relay of its own
// before the rendezvous point. The windows end to end are fixed: Vegas would find its own
// on a busy machine, and the speed would say nothing about the relays.
func rendezvous(t testing.TB, o circuit.HopOptions) *stream.Stream {
	t.Helper()
	ctx := deadline(t)
	point := simnet.New(t, simnet.Options{})
	client := build(t, newClient(t), o, simnet.New(t, simnet.Options{}), point)
	service := build(t, newClient(t), o, simnet.New(t, simnet.Options{}), point)
	cookie := make([]byte, cell.CookieLen)
	wait := func(h *circuit.Hop, want cell.RelayCommand, send func() error) {
		t.Helper()
		e, err := h.Expect(want)
		if err == nil {
			err = send()
		}
		if err == nil {
			_, _, err = e.Wait(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	near := client.Last()
	wait(near, cell.RelayRendezvousEstablished, func() error { return near.Send(cell.RelayEstablishRendezvous, 0, cookie) })
	keys := make([]byte, 1000)
	host := simnet.New(t, simnet.Options{Serve: source})
	if _, err := service.AddRendezvous(bytes.NewReader(keys), circuit.HopOptions{}, host); err != nil {
		t.Fatal(err)
	}
	wait(near, cell.RelayRendezvous2, func() error { return service.Hops()[1].Send(cell.RelayRendezvous1, 0, cookie) })
	h, err := client.AddRendezvous(bytes.NewReader(keys), circuit.HopOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := stream.Dial(ctx, h, "source", 80)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRelayedCellsAllocateNothing: what a client, two relays and an exit
// allocate for a cell, all together, is a few hundredths of an object for
// each: SENDMEs and timers, nothing of the cells. The same holds for what a client, a
// service and the three relays between them allocate.
func TestRelayedCellsAllocateNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes pools forget")
	}
	t.Run("exit", func(t *testing.T) { allocatesNothing(t, download(t, vegas), 4) })
	t.Run("rendezvous", func(t *testing.T) { allocatesNothing(t, rendezvous(t, vegas), 5) })
}

func allocatesNothing(t *testing.T, s *stream.Stream, parties float64) {
	t.Helper()
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
	cells := float64(size) / 498 * parties
	// TLS makes one small object for each record of 31 cells: the channel gives it one long record at a time,
	// so that an idle link keeps less memory.
	if per := float64(after.Mallocs-before.Mallocs) / cells; per > 0.08 {
		t.Errorf("%.3f objects are allocated for a cell", per)
	} else {
		t.Logf("%.4f objects for a cell", per)
	}
}

// BenchmarkRelayForward is a stream through three relays, all in this process.
func BenchmarkRelayForward(b *testing.B) { forward(b, download(b, vegas)) }

// BenchmarkSplice is a stream to an onion service, also through three relays.
func BenchmarkSplice(b *testing.B) { forward(b, rendezvous(b, vegas)) }

func forward(b *testing.B, s *stream.Stream) {
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := io.CopyN(io.Discard, s, 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}
