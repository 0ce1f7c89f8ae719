package channel

import (
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/panics"
)

// ctorRecord is how many bytes of cells C tor puts into a TLS record while more of them wait: its buffers are chains
// of chunks, and each chunk becomes a record. Where the chunk ends, a cell is cut.
const ctorRecord = 4048

// After a pause a link begins with a short record, and each record may be twice as long as the last. A peer can read no cell of a
// record before all of it is there: with the longest at once, the first bytes of an answer would wait at each hop until
// thirty more cells have come, and for each lost packet among them.
const (
	firstCells = 1                     // of the first record after a pause: 1, 2, 4, 8 and 16 are a slab
	pause      = 20 * time.Millisecond // a link in use has shorter ones
)

// firstCellWait is how long NETINFO waits for the first circuit's cell. C tor's event loop writes both at once. A link
// that gets no circuit must not leave its peer waiting.
const firstCellWait = 50 * time.Millisecond

// spaceLocked returns how many bytes of cells the next record may have. The caller holds mu, and writes the record.
func (ch *Channel) spaceLocked(now time.Time) int {
	if !ch.idle.IsZero() && now.Sub(ch.idle) >= pause {
		ch.grown = 0
	}
	ch.idle = time.Time{}
	ch.grown = min(max(firstCells, 2*ch.grown), recordCells)
	return max(ch.grown*cell.Len, len(ch.urgent)) // whose cells are as long as they are
}

// holdUnsent queues the cells that the link handshake left, and has them written with the first
// circuit's cell, or after a while.
func (ch *Channel) holdUnsent() {
	if len(ch.link.unsent) == 0 {
		return
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.urgent, ch.link.unsent = ch.link.unsent, nil
	ch.account.Reserve(ch.urgentCostLocked())
	ch.unsent = time.AfterFunc(firstCellWait, panics.Contain(ch.cfg.Log, ch.Close, ch.sendUnsent))
}

// sendUnsent has what is queued written, if nobody has it.
func (ch *Channel) sendUnsent() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if !ch.closed && ch.hasQueuedLocked() {
		ch.wakeLocked()
	}
}

// openRecord returns the slab into which the next cells go: behind those that the last record left,
// if it left some.
func (ch *Channel) openRecord() *slab {
	if s := ch.begun; s != nil {
		ch.begun = nil
		ch.account.Release(s.cost())
		return s
	}
	s := slabPool.Get().(*slab)
	s.w = 0
	return s
}

// writeCut writes the slab's bytes as C tor does: in records of one size, of which only the last is shorter. If
// more cells follow at once, that one waits for them. Otherwise all is written. If hold is set, the wire keeps what is
// written.
func (ch *Channel) writeCut(s *slab, follow, hold bool) error {
	end := s.w
	if follow {
		end -= end % ctorRecord
	}
	for at := 0; at < end; {
		next := min(at+ctorRecord, end)
		if ch.wire != nil {
			ch.wire.gather(hold || next < end)
			ch.wire.expectShort(next - at)
		}
		if _, err := ch.conn.Write(s.b[at:next]); err != nil {
			return err
		}
		at = next
		if st := ch.cfg.Stats; st != nil {
			st.RecordsOut.Add(1)
		}
	}
	if s.w = copy(s.b, s.b[end:s.w]); s.w > 0 {
		ch.begun = s
		ch.account.Reserve(s.cost())
	} else {
		slabPool.Put(s)
	}
	return nil
}

// countOut counts n bytes of cells that were written.
func (ch *Channel) countOut(n int) {
	ch.out.Add(uint64(n))
	if st := ch.cfg.Stats; st != nil {
		st.CellsOut.Add(uint64(n / cell.Len))
		st.BytesOut.Add(uint64(n))
	}
}
