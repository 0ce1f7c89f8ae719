package circuit

import (
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// deaf is a stream that does nothing with what comes.
type deaf struct{}

func (deaf) HandleMessage(cell.RelayMsg, time.Time) error { return nil }
func (deaf) Flush()                                       {}
func (deaf) HandleCircuitClose(error)                     {}

// TestClosedStreamsAreReleased: the bytes of a stream that was closed here are
// released when the peer's END comes, also if the stream itself still took the END.
func TestClosedStreamsAreReleased(t *testing.T) {
	onRig(t, func(r *rig) {
		r.circuit(HopOptions{}, nil)
		c := r.last()
		h := c.Last()
		before := c.Account().Used()
		for id := uint16(1); id <= 3*maxClosed; id++ {
			if err := h.AcceptStream(id, deaf{}); err != nil {
				t.Fatal(err)
			}
			h.RemoveStream(id, false)
			if got := c.Account().Used() - before; got != closedCost {
				t.Fatalf("a closed stream holds %d bytes", got)
			}
			h.RemoveStream(id, true)
			h.RemoveStream(id, true) // again: nothing is left to release
			if got := c.Account().Used() - before; got != 0 {
				t.Fatalf("stream %d: %d bytes are left after its END", id, got)
			}
		}
	})
}

// TestStreamsClosedTwice: a stream is removed when it has ended, and once more when its
// owner closes it. It counts once, so nothing is left after the peer's END.
func TestStreamsClosedTwice(t *testing.T) {
	onRig(t, func(r *rig) {
		r.circuit(HopOptions{}, nil)
		c := r.last()
		h := c.Last()
		before := c.Account().Used()
		if err := h.AcceptStream(1, deaf{}); err != nil {
			t.Fatal(err)
		}
		h.RemoveStream(1, false)
		h.RemoveStream(1, false)
		h.RemoveStream(1, true)
		if got := c.Account().Used() - before; got != 0 {
			t.Fatalf("%d bytes are left after its END", got)
		}
	})
}
