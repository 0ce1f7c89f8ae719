package circuit

import (
	"testing"
	"time"

	"github.com/chivenet/chive/internal/flow"
)

// someCredit is a window of 600 cells with some credit.
type someCredit int

func (n someCredit) Available() int             { return int(n) }
func (someCredit) Sent(time.Time) bool          { return false }
func (someCredit) Sendme(time.Time, bool) error { return nil }
func (someCredit) State() flow.State            { return flow.State{Cwnd: 600} }

// TestCredit: enough credit for a batch wakes the stream that waits at once, less of it after
// the reader's batch, and none not at all.
func TestCredit(t *testing.T) {
	for _, v := range []struct {
		credit        someCredit
		during, after bool
	}{{0, false, false}, {31, false, true}, {batchCells, true, false}} {
		c := new(Circuit)
		h, w := &Hop{c: c, send: v.credit}, NewWaiter()
		h.enqueue(w)
		h.credited()
		if got := w.token(); got != v.during {
			t.Errorf("credit of %d cells: woken at once: %v", v.credit, got)
		}
		c.endBatch()
		if got := w.token(); got != v.after {
			t.Errorf("credit of %d cells: woken after the batch: %v", v.credit, got)
		}
		c.endBatch()
		if w.token() {
			t.Errorf("credit of %d cells: woken twice", v.credit)
		}
	}
}
