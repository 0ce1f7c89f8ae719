package channel

import (
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// writeTimeout is how long one record may wait for a peer that does not read.
const writeTimeout = 2 * time.Minute

// writeLoop pulls records' worth of cells by the scheduler and writes each
// with one call, until the channel closes.
func (ch *Channel) writeLoop() {
	if err := ch.write(); err != nil {
		ch.Close(fault.New(fault.Network, "channel: write: %w", err))
	}
}

func (ch *Channel) write() error {
	record := make([]byte, recordCells*cell.Len)
	var writable []*Circ
	var deadline time.Time
	for {
		now := ch.cfg.Now()
		ch.mu.Lock()
		for len(ch.urgent) == 0 && ch.sched.min() == nil && !ch.closed {
			ch.idle = true
			ch.cond.Wait()
			now = ch.cfg.Now()
		}
		if ch.closed {
			ch.mu.Unlock()
			return nil
		}
		var whole *slab
		var n int
		n, whole, writable = ch.fill(record, now, writable[:0])
		ch.mu.Unlock()

		for i, c := range writable {
			if r := c.receiver(); r != nil {
				r.HandleWritable()
			}
			writable[i] = nil
		}
		// A deadline costs a timer's update: renew it only now and then.
		if deadline.Sub(now) < writeTimeout/2 {
			deadline = now.Add(writeTimeout)
			if err := ch.conn.SetWriteDeadline(deadline); err != nil {
				return err
			}
		}
		out := record[:n]
		if whole != nil {
			out = whole.b[:]
		}
		ch.lastOut.Store(now.UnixNano())
		_, err := ch.conn.Write(out)
		if s := ch.cfg.Stats; s != nil {
			s.CellsOut.Add(uint64(len(out) / cell.Len))
			s.BytesOut.Add(uint64(len(out)))
			s.RecordsOut.Add(1)
		}
		if whole != nil {
			putSlab(whole)
		}
		if err != nil {
			return err
		}
	}
}

// fill takes cells for one record: urgent ones first, then circuits by the
// scheduler, a burst each. A circuit that is alone with a full slab gives it
// whole. Circuits that have room again, and said that they wait, join
// writable. The caller holds mu.
func (ch *Channel) fill(record []byte, now time.Time, writable []*Circ) (int, *slab, []*Circ) {
	n := 0
	if len(ch.urgent) > 0 {
		n = copy(record, ch.urgent)
		if n == len(ch.urgent) {
			ch.urgent = ch.urgent[:0]
			if cap(ch.urgent) > 64*cell.Len {
				ch.urgent = nil
			}
		} else {
			ch.urgent = ch.urgent[:copy(ch.urgent, ch.urgent[n:])]
		}
	}
	ch.sched.rescale(now, ch.circs)
	weight := ch.sched.weight(now)
	if c := ch.sched.min(); c != nil && n == 0 && len(ch.sched.heap) == 1 {
		if s := c.q.popFull(); s != nil {
			return 0, s, ch.took(c, recordCells, weight, writable)
		}
	}
	for n < len(record) {
		c := ch.sched.min()
		if c == nil {
			break
		}
		k := c.q.pop(record[n:min(len(record), n+burst*cell.Len)])
		n += k
		writable = ch.took(c, k/cell.Len, weight, writable)
	}
	return n, nil, writable
}

// took accounts for n cells taken from c.
func (ch *Channel) took(c *Circ, n int, weight float64, writable []*Circ) []*Circ {
	c.ewma += float64(n) * weight
	c.queued.Store(int32(c.q.n))
	if c.q.n == 0 {
		ch.sched.remove(c)
	} else {
		ch.sched.fix(c)
	}
	if c.blocked && c.q.n <= queueBound/2 {
		c.blocked = false
		writable = append(writable, c)
	}
	return writable
}
