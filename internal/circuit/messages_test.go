package circuit

import (
	"testing"

	"github.com/chivenet/chive/internal/cell"
)

// TestMessages: an end has handlers for what the other end may send, and no
// handlers for what its streams take.
func TestMessages(t *testing.T) {
	for i, row := range messages {
		c := cell.RelayCommand(i)
		if row.client != nil && !c.Has(cell.ByRelay) || (row.relay != nil || row.service != nil) && !c.Has(cell.ByClient) {
			t.Errorf("%v has a handler for an end that never gets it", c)
		}
		if (row.client != nil || row.relay != nil || row.service != nil) && c.Has(cell.OnStream) && !c.Has(cell.Opens) {
			t.Errorf("%v has a handler, and goes to its stream", c)
		}
		if c.Has(cell.Opens) && row.relay == nil {
			t.Errorf("%v opens a stream, and no relay takes it", c)
		}
	}
}

// TestWrongEnd: a circuit closes when an end sends what only the other end may
// send, whether its stream exists or not.
func TestWrongEnd(t *testing.T) {
	onRig(t, func(r *rig) {
		for i := range 256 {
			cmd := cell.RelayCommand(i)
			if !cmd.Known() || cmd.Has(cell.ByClient) {
				continue
			}
			c := r.circuit(congested, nil)
			stream := uint16(0)
			if cmd.Has(cell.OnStream) {
				stream = 7
				// A stream that this side has closed ignores everything else.
				h := r.last().Hops()[0]
				if err := h.AcceptStream(stream, &closedStream{h: h, id: stream, allowed: maxAfterClose}); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Last().Send(cmd, stream, nil); err != nil {
				t.Fatal(err)
			}
			r.refused(cmd.String(), r.last(), "unexpected "+cmd.String()+" from a client")
		}
		c := r.circuit(congested, nil)
		c.handle = fromRelay
		if err := r.last().Hops()[0].Send(cell.RelayBeginDir, 7, nil); err != nil {
			t.Fatal(err)
		}
		r.refused("BEGIN_DIR", c, "unexpected BEGIN_DIR from hop 1")
	})
}
