package channel

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// feed is a connection that has cells to read, and then nothing more.
type feed struct {
	net.Conn
	to    *Channel
	cells []byte
}

func (f *feed) Read(p []byte) (int, error) {
	if len(f.cells) == 0 {
		f.to.drained()
		return 0, errQuiet
	}
	n := copy(p[:min(len(p), recordCells*cell.Len)], f.cells)
	f.cells = f.cells[n:]
	return n, nil
}

// onward has the reader write to another channel at the end of its batch, and counts how often.
type onward struct {
	*sink
	from, to *Channel
	flushes  *int
}

func (o *onward) HandleCells([]byte) {
	if !slices.Contains(o.from.claimed, o.to) {
		o.from.FlushLater(o.to)
		*o.flushes++
	}
}

// TestBatchForManyLinks: what comes on one link and goes to 32 others is written to each of them a quarter as often as
// what goes to one, which is written as soon as it fills four records.
func TestBatchForManyLinks(t *testing.T) {
	const batches = 16
	for _, c := range []struct{ links, want int }{{1, batches}, {2, 2 * batches / 2}, {32, 32 * batches / batchLinks}} {
		from := &Channel{circs: map[uint32]*CircuitEnd{}, cfg: &Config{Now: time.Now}, link: new(Link), wire: new(wire), ack: func() {}}
		flushes := 0
		for i := range c.links {
			other := &Channel{cfg: from.cfg, conn: noWriter{}, silent: true}
			in := &CircuitEnd{ch: from, id: uint32(i + 1)}
			in.SetReceiver(&onward{newSink(), from, other, &flushes})
			from.circs[in.id] = in
		}
		cells := numbered(0, batches*maxBatch/cell.Len)
		for i := 0; i < len(cells); i += cell.Len {
			cell.PutHeader(cells[i:], uint32(i/cell.Len%c.links+1), cell.CmdRelay)
		}
		from.conn = &feed{to: from, cells: cells}
		if err := from.readBusy(); err != errQuiet {
			t.Fatal(err)
		}
		if flushes != c.want {
			t.Errorf("%d links: written %d times, and not %d", c.links, flushes, c.want)
		}
	}
}

// noWriter is the connection of a channel that has nothing to write.
type noWriter struct{ net.Conn }

func (noWriter) SetWriteDeadline(time.Time) error { return nil }
