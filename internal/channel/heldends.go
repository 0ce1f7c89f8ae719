package channel

import (
	"slices"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

const (
	// endsTogether is how near to each other circuits end that C tor ends in one pass of its loop. Then only the first one's
	// DESTROY finds that the connection has nothing to write.
	endsTogether = 5 * time.Millisecond
	// schedulerRun is how long after a circuit's cell C tor's scheduler may still empty the link's queues
	// (KIST_SCHED_RUN_INTERVAL_DEFAULT). This program has written the cell by then.
	schedulerRun = 2 * time.Millisecond
	// maxHeld bounds the ends that are kept back. They go out with any cell, and each circuit begins with one, so only circuits that
	// are open at the same time count.
	maxHeld = maxUrgent / cell.Len
)

// heldEnds are the DESTROY cells that a client's link keeps back, as C tor's does. It sends the DESTROY of a circuit at once
// if the connection has nothing to write: of several circuits that end in one pass of its loop, that is the first one's. The
// others wait until a circuit has a cell for the link, or one more circuit ends, which lets out the oldest of them
// (circuitmux_append_destroy_cell). A guard would know a client by the cells that come at once. Until then the relay keeps the
// circuits, as it does C tor's. Channel.mu guards it.
type heldEnds struct {
	all   []heldEnd // the oldest first
	last  time.Time // when a DESTROY was last let out; zero if a circuit's cell came after it
	cell  time.Time // when the last cell of a circuit went out
	after bool      // C tor's last_cell_was_destroy
	due   bool      // a circuit's cell has gone out or waits: they go with it
}

type heldEnd struct {
	id     uint32
	reason cell.DestroyReason
}

// append appends the cell.
func (e heldEnd) append(b []byte) []byte {
	var c [cell.Len]byte
	cell.PutHeader(c[:], e.id, cell.CmdDestroy)
	cell.Payload(c[:])[0] = byte(e.reason)
	return append(b, c[:]...)
}

// sendDestroy sends the DESTROY of a circuit that has ended, or keeps it back.
func (ch *Channel) sendDestroy(e heldEnd) {
	e, now := ch.holdEnd(e)
	if now {
		ch.sendUrgent(e.append(nil))
	}
}

// holdEnd returns the DESTROY that is to be sent now, if one is.
func (ch *Channel) holdEnd(e heldEnd) (out heldEnd, now bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	h := ch.ends
	if h == nil || ch.closed || ch.silent || len(h.all) >= maxHeld {
		return e, true
	}
	h.all = append(h.all, e)
	at := ch.cfg.Now()
	switch since := at.Sub(h.last); {
	case h.due, ch.sched.min() != nil, at.Sub(h.cell) < schedulerRun: // cells go out, and this with them
		h.due = true
		ch.wakeLocked()
	case len(ch.urgent) == 0 && (since < 0 || since >= endsTogether):
		h.last, h.after = at, true
		return h.takeLocked(), true
	}
	return heldEnd{}, false
}

func (h *heldEnds) takeLocked() heldEnd {
	e := h.all[0]
	if h.all = h.all[1:]; len(h.all) == 0 {
		h.all = nil
	}
	return e
}

// waitLocked reports whether they are to be written now.
func (h *heldEnds) waitLocked() bool { return h != nil && h.due && len(h.all) > 0 }

// hasLocked reports whether the relay may still have a circuit of this identifier, which ended here.
func (h *heldEnds) hasLocked(id uint32) bool {
	return h != nil && slices.ContainsFunc(h.all, func(e heldEnd) bool { return e.id == id })
}

// holdsEnds reports whether DESTROY cells are kept back. C tor does not pad such a link (channelpadding_decide_to_pad_channel).
func (ch *Channel) holdsEnds() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.ends != nil && len(ch.ends.all) > 0
}

// fillEndsLocked takes what was kept back into a record, by turns with single cells of circuits, as C tor's queues do. The caller holds mu.
func (ch *Channel) fillEndsLocked(record []byte, now time.Time, weight float64, writable []*CircuitEnd) (int, []*CircuitEnd) {
	h, n := ch.ends, 0
	if h == nil || len(h.all) == 0 || !h.due && ch.sched.min() == nil {
		return 0, writable
	}
	for len(h.all) > 0 && len(record)-n >= cell.Len {
		c := ch.sched.min()
		if c == nil || !h.after {
			n += copy(record[n:], h.takeLocked().append(nil))
			h.after = true
			continue
		}
		k := c.q.pop(record[n : n+cell.Len])
		n += k
		h.passedLocked(now)
		writable = ch.countTakenLocked(c, k/cell.Len, weight, writable)
	}
	h.due = len(h.all) > 0
	return n, writable
}

// passedLocked says that a circuit's cell goes out.
func (h *heldEnds) passedLocked(now time.Time) {
	if h != nil {
		h.last, h.cell, h.after = time.Time{}, now, false
	}
}
