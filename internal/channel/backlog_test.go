package channel

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// passer queues the cells of a circuit on another channel, as a relay does.
type passer struct {
	*sink
	t  *testing.T
	to *CircuitEnd
}

func (p *passer) HandleCells(cells []byte) {
	if err := p.to.Send(cells); err != nil && !fault.Is(err, fault.Closed) {
		p.t.Error(err)
	}
}

// stuckChannel is a channel that nobody writes: its cells wait until they are taken by hand.
func stuckChannel() *Channel {
	return &Channel{circs: map[uint32]*CircuitEnd{}, cfg: &Config{Now: time.Now}, turn: turnLoop}
}

// takeFrom takes up to a record of cells from a stuck channel.
func takeFrom(to *Channel) []byte {
	to.mu.Lock()
	defer to.mu.Unlock()
	b := make([]byte, recordCells*cell.Len)
	n, whole, _, _ := to.fillLocked(b, time.Unix(1, 0), nil)
	if whole != nil {
		return whole.b
	}
	return b[:n]
}

// passOn opens a circuit on a whose cells b passes on to a circuit of to.
func passOn(t *testing.T, a, b *Channel, accepted chan *sink, to *Channel) (c, next *CircuitEnd) {
	t.Helper()
	c, _ = opened(t, a, accepted)
	next = &CircuitEnd{ch: to, id: c.ID(), heapAt: -1}
	to.circs[next.id] = next
	next.From(b)
	b.lookup(c.ID()).SetReceiver(&passer{newSink(), t, next})
	return c, next
}

func sendMany(t *testing.T, c *CircuitEnd, n int) []byte {
	t.Helper()
	cells := numbered(0, n)
	for i := 0; i < len(cells); i += cell.Len {
		cell.PutHeader(cells[i:], c.ID(), cell.CmdRelay)
	}
	if err := c.Send(cells); err != nil {
		t.Fatal(err)
	}
	return cells
}

// mostBacklog is a full backlog, and what the reader brings with the last read.
const mostBacklog = maxBacklog + readBuffer/cell.Len

// TestBacklog: a client's link is not read while too many of its cells wait, and is as soon as half of them have
// gone on. All arrive.
func TestBacklog(t *testing.T) {
	pair(t, Config{}, Config{}, func(a, b *Channel, accepted chan *sink) {
		to, began := stuckChannel(), time.Now()
		c, _ := passOn(t, a, b, accepted, to)
		want := sendMany(t, c, 5*maxBacklog)
		var got []byte
		for len(got) < len(want) {
			synctest.Wait()
			waits := int(b.backlog.Load())
			if waits > mostBacklog {
				t.Fatalf("%d cells wait", waits)
			}
			if left := (len(want) - len(got)) / cell.Len; waits <= lowBacklog && waits < left {
				t.Fatalf("%d cells wait, and the reader does not bring the other %d", waits, left-waits)
			}
			n := len(got)
			if got = append(got, takeFrom(to)...); len(got) == n {
				t.Fatalf("%d of %d cells came", n/cell.Len, len(want)/cell.Len)
			}
		}
		if !bytes.Equal(got, want) {
			t.Error("the cells are not in order")
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("the reader waited for its timer: %v", d)
		}
		if n := b.backlog.Load(); n != 0 {
			t.Errorf("the backlog is %d without any cell", n)
		}
	})
}

// TestBacklogThatStands: circuits on which nothing moves slow down the link's other ones, and do not stop them. What
// the reader keeps meanwhile is on the link's account.
func TestBacklogThatStands(t *testing.T) {
	m := account.New(0)
	pair(t, Config{}, Config{Memory: m}, func(a, b *Channel, accepted chan *sink) {
		to := stuckChannel()
		c, _ := passOn(t, a, b, accepted, to)
		free, other := opened(t, a, accepted)
		synctest.Wait()
		rest := b.account.Used()
		sendMany(t, c, 2*maxBacklog)
		synctest.Wait()
		sendMany(t, free, 1)
		synctest.Wait()
		if n := b.backlog.Load(); n > mostBacklog || other.count() != 0 {
			t.Fatalf("%d cells wait, and %d came of the other circuit", n, other.count())
		}
		if n := b.account.Used() - rest; n < readBuffer+wireSpace {
			t.Errorf("%d bytes are on the account", n)
		}
		time.Sleep(2 * maxBacklog / recordCells * maxHold)
		synctest.Wait()
		if n := b.backlog.Load(); n != 2*maxBacklog || other.count() != 1 {
			t.Errorf("%d cells wait, and %d came of the other circuit", n, other.count())
		}
	})
}

// TestBacklogEnds: a circuit that ends takes its cells out of the backlog, and the reader goes on.
func TestBacklogEnds(t *testing.T) {
	pair(t, Config{}, Config{}, func(a, b *Channel, accepted chan *sink) {
		to, began := stuckChannel(), time.Now()
		c, next := passOn(t, a, b, accepted, to)
		d, _ := passOn(t, a, b, accepted, to)
		sendMany(t, c, 2*maxBacklog)
		synctest.Wait()
		sendMany(t, d, 3)
		synctest.Wait()
		if n := b.backlog.Load(); n <= maxBacklog || n > mostBacklog {
			t.Fatalf("%d cells wait", n)
		}
		next.detach()
		synctest.Wait()
		if n := b.backlog.Load(); n != 3 {
			t.Errorf("%d cells wait, and not 3", n)
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("it took %v", d)
		}
	})
}

// TestBacklogOfRelays: a relay's link is read whatever waits.
func TestBacklogOfRelays(t *testing.T) {
	pairAs(t, true, Config{}, Config{}, func(a, b *Channel, accepted chan *sink) {
		to, began := stuckChannel(), time.Now()
		c, next := passOn(t, a, b, accepted, to)
		sendMany(t, c, 3*maxBacklog)
		synctest.Wait()
		if n := next.Queued(); n != 3*maxBacklog || time.Since(began) != 0 {
			t.Errorf("%d of %d cells came, after %v", n, 3*maxBacklog, time.Since(began))
		}
	})
}
