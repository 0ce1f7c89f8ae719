package circuit

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
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

// TestClosedStreamOfTwoLegs: messages for a stream that was closed may come by the readers of
// both legs of a conflux set. All of them count.
func TestClosedStreamOfTwoLegs(t *testing.T) {
	s := &closedStream{h: new(Hop), id: 1, allowed: maxAfterClose}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range maxAfterClose / 2 {
				if err := s.HandleMessage(cell.RelayMsg{Cmd: cell.RelaySendme, Stream: 1}, time.Time{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if s.allowed != 0 {
		t.Errorf("%d messages did not count", s.allowed)
	}
}

// TestClosedStreamBound: a peer that goes on and on with a stream that was closed breaks the protocol. Until
// then, and for other streams, cells that were in flight are dropped.
func TestClosedStreamBound(t *testing.T) {
	h := new(Hop)
	s, other := &closedStream{h: h, id: 1, allowed: maxAfterClose}, &closedStream{h: h, id: 2, allowed: maxAfterClose}
	m := cell.RelayMsg{Cmd: cell.RelayData, Stream: 1, Data: []byte{1}}
	for i := range maxAfterClose {
		if err := s.HandleMessage(m, time.Time{}); err != nil {
			t.Fatalf("message %d: %v", i+1, err)
		}
	}
	if err := s.HandleMessage(m, time.Time{}); !fault.Is(err, fault.Protocol) {
		t.Error("one more than may be in flight:", err)
	}
	if err := other.HandleMessage(m, time.Time{}); err != nil {
		t.Error("of another stream:", err)
	}
}

// TestLateAnswers: the answer to a lookup that was given up is the last message for it.
func TestLateAnswers(t *testing.T) {
	onRig(t, func(r *rig) {
		r.circuit(HopOptions{}, nil)
		c := r.last()
		h := c.Last()
		before := c.Account().Used()
		var ids []uint16
		for i := range maxClosed + 1 {
			if err := h.OpenStream(func(id uint16) StreamReceiver { ids = append(ids, id); return deaf{} }); err != nil {
				t.Fatal(err)
			}
			h.RemoveStream(ids[i], false)
		}
		pastID, id := ids[0], ids[maxClosed]
		if err := h.late(cell.RelayMsg{Cmd: cell.RelayResolved, Stream: pastID}); err != nil || h.past.has(pastID) {
			t.Error("remembered after its answer: ", err)
		}
		if err := h.stream(id).HandleMessage(cell.RelayMsg{Cmd: cell.RelayResolved, Stream: id}, time.Now()); err != nil || h.stream(id) != nil {
			t.Error("remembered after its answer: ", err)
		}
		if got := c.Account().Used() - before; got != (maxClosed-1)*closedCost+pastCost {
			t.Errorf("%d bytes", got)
		}
	})
}

// TestLateOnClosedLeg: the other legs of a conflux set close a little after the first one, which
// has the streams. What comes by them until then is no violation.
func TestLateOnClosedLeg(t *testing.T) {
	onRig(t, func(r *rig) {
		h := r.circuit(HopOptions{}, nil).Last()
		m := cell.RelayMsg{Cmd: cell.RelayData, Stream: 1}
		if err := h.late(m); err == nil {
			t.Error("a cell for a stream that never was")
		}
		h.closeStreams(nil)
		if err := h.late(m); err != nil {
			t.Error(err)
		}
	})
}

// TestLateCells: a circuit survives what is in flight for streams that were closed, also
// if these are more than are remembered one by one; what comes without end does not.
func TestLateCells(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.circuit(congested, nil)
		h, far := c.Last(), r.last().Last()
		before := c.Account().Used()
		var ids []uint16
		for range 3 * maxClosed {
			if err := h.OpenStream(func(id uint16) StreamReceiver { ids = append(ids, id); return deaf{} }); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range ids {
			h.RemoveStream(id, false)
		}
		if held := c.Account().Used() - before; held != maxClosed*closedCost+pastCost {
			t.Errorf("%d bytes are held", held)
		}
		say := func(cmd cell.RelayCommand, id uint16, body []byte) {
			t.Helper()
			if err := far.Send(cmd, id, body); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		end := (&cell.End{Reason: cell.EndDone}).Append(nil)
		for _, id := range []uint16{ids[0], ids[maxClosed], ids[len(ids)-1]} {
			say(cell.RelayConnected, id, nil)
			say(cell.RelayData, id, []byte("late"))
			say(cell.RelayEnd, id, end)
		}
		if err := c.Err(); err != nil {
			t.Fatal(err)
		}
		// The identifier is somebody else's now.
		h.smu.Lock()
		h.nextID = ids[1] - 1
		h.smu.Unlock()
		fresh := new(taker)
		if err := h.OpenStream(func(id uint16) StreamReceiver { ids[1] = id; return fresh }); err != nil {
			t.Fatal(err)
		}
		say(cell.RelayData, ids[1], []byte("new"))
		if fresh.got.String() != "new" {
			t.Errorf("a new stream with an old identifier got %q", fresh.got.String())
		}
		h.smu.Lock()
		h.past.allowed = 1
		h.smu.Unlock()
		say(cell.RelayData, ids[2], []byte("late"))
		if err := c.Err(); err != nil {
			t.Fatal(err)
		}
		say(cell.RelayData, ids[3], []byte("too late"))
		r.refused("more than the bound", c, "the peer goes on sending")

		c = r.circuit(congested, nil)
		h, far = c.Last(), r.last().Last()
		ids = nil
		for range maxClosed + 1 {
			if err := h.OpenStream(func(id uint16) StreamReceiver { ids = append(ids, id); return deaf{} }); err != nil {
				t.Fatal(err)
			}
			h.RemoveStream(ids[len(ids)-1], false)
		}
		say(cell.RelayEnd, ids[0], end)
		say(cell.RelayEnd, ids[0], end)
		r.refused("a second END", c, "which does not exist")
	})
}

// TestPastStreams: the bound is that of the streams that are remembered, however many
// there were.
func TestPastStreams(t *testing.T) {
	var p pastStreams
	if p.has(7) {
		t.Error("there was none")
	}
	for i := range 5 * maxClosed {
		if grew := p.add(&closedStream{id: uint16(i), allowed: maxAfterClose}); grew != (i == 0) {
			t.Fatal(i, grew)
		}
	}
	if p.allowed != maxPastCells || !p.has(0) || !p.has(5*maxClosed-1) || p.has(5*maxClosed) {
		t.Errorf("%d", p.allowed)
	}
	if p.remove(63); p.has(63) || !p.has(62) || !p.has(64) {
		t.Error("another one was removed")
	}
}
