package circuit_test

import (
	"bytes"
	"io"
	"sync"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// counted has the circuits of clients count what they carry, until the test ends.
func counted(t testing.TB) {
	env.Count(true)
	t.Cleanup(func() { env.Count(false) })
}

// TestCarried: a client's circuit counts its cells and what is in them both ways, while that is wanted.
func TestCarried(t *testing.T) {
	for name, o := range map[string]circuit.HopOptions{"fixed windows": {}, "congestion control": vegas} {
		t.Run(name, func(t *testing.T) {
			c := build(t, newClient(t), o, simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{}))
			echo := func(size int) {
				t.Helper()
				s, err := stream.Dial(deadline(t), c.Last(), "echo", 80)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				var wg sync.WaitGroup
				wg.Go(func() { _, _ = s.Write(make([]byte, size)) }) // the reader tells of a failure
				if _, err := io.ReadFull(s, make([]byte, size)); err != nil {
					t.Fatal(err)
				}
				wg.Wait()
			}
			echo(1000)
			if n := c.Carried(); n != (circuit.Carried{}) {
				t.Fatalf("nobody wants to know: %+v", n)
			}
			counted(t)
			const size = 200_000
			echo(size)
			env.Count(false)
			n := c.Carried()
			const least, body = size/498 + 1, cell.PayloadLen - 11
			if n.DeliveredRead < size || n.DeliveredRead > size+size/20 || n.DeliveredWritten < size || n.DeliveredWritten > size+size/20 {
				t.Errorf("of %d bytes: %+v", size, n)
			}
			if n.Read%cell.PayloadLen != 0 || n.Written%cell.PayloadLen != 0 || n.Read < least*cell.PayloadLen || n.Written < least*cell.PayloadLen {
				t.Errorf("cells: %+v", n)
			}
			if n.DeliveredRead+n.OverheadRead != n.Read/cell.PayloadLen*body || n.DeliveredWritten+n.OverheadWritten != n.Written/cell.PayloadLen*body {
				t.Errorf("all cells had a message that was wanted: %+v", n)
			}
			if (n.Flow.Cwnd > 0) != o.Congestion {
				t.Errorf("the window: %+v", n.Flow)
			}
			echo(1000)
			if again := c.Carried(); again.Read != n.Read || again.Written != n.Written {
				t.Errorf("nobody wants to know any more: %+v, then %+v", n, again)
			}
		})
	}
}

// TestDroppedNotDelivered: a DROP cell for which there is no padding machine has come, and was not wanted.
func TestDroppedNotDelivered(t *testing.T) {
	counted(t)
	dropping := simnet.Options{Serve: func(s *stream.Stream) {
		_ = s.Hop().Send(cell.RelayDrop, 0, bytes.Repeat([]byte{1}, 100)) // else the counts tell
		_, _ = s.Write([]byte("x"))
	}}
	c := build(t, newClient(t), vegas, simnet.New(t, simnet.Options{}), simnet.New(t, dropping))
	s, err := stream.Dial(deadline(t), c.Last(), "drop", 80)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(s, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	n := c.Carried()
	if cells, known := n.Read/cell.PayloadLen, (n.DeliveredRead+n.OverheadRead)/(cell.PayloadLen-11); known != cells-1 {
		t.Errorf("%d cells, of which %d were wanted", cells, known)
	}
}

// TestCountingAllocatesNothing: cells cost no object more while they are counted.
func TestCountingAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes pools forget")
	}
	counted(t)
	allocatesNothing(t, download(t, vegas), 4)
}

// BenchmarkCounted is BenchmarkRelayForward while the client counts.
func BenchmarkCounted(b *testing.B) {
	counted(b)
	forward(b, download(b, vegas))
}
