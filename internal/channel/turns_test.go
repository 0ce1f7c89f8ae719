package channel

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// lead remembers how far one of two links was ahead of the other.
type lead struct {
	mu          sync.Mutex // guards what follows
	bytes, most int
}

// runner hears of the cells of one of them.
type runner struct {
	*sink
	*lead
	sign int
}

func (r *runner) HandleCells(cells []byte) {
	r.lead.mu.Lock()
	defer r.lead.mu.Unlock()
	r.bytes += r.sign * len(cells)
	r.most = max(r.most, r.bytes, -r.bytes)
}

// TestReadersTakeTurns: of two links that always have something to read, neither is read for long while the other waits.
func TestReadersTakeTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so one runs at a time
	// Go's scheduler may let one run once or twice more before the other.
	const turns, few = 16, 4
	var l lead
	var wg sync.WaitGroup
	var feeds []*Channel
	for _, sign := range []int{1, -1} {
		ch := &Channel{circs: map[uint32]*CircuitEnd{}, cfg: &Config{Now: time.Now}, link: new(Link), wire: new(wire), ack: func() {}}
		in := &CircuitEnd{ch: ch, id: 1}
		in.SetReceiver(&runner{newSink(), &l, sign})
		ch.circs[in.id] = in
		cells := numbered(0, turns*readTurn/cell.Len)
		for i := 0; i < len(cells); i += cell.Len {
			cell.PutHeader(cells[i:], in.id, cell.CmdRelay)
		}
		ch.conn = &feed{to: ch, cells: cells}
		feeds = append(feeds, ch)
	}
	for _, ch := range feeds {
		wg.Go(func() {
			if err := ch.readBusy(); err != errQuiet {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if l.most > few*readTurn {
		t.Errorf("one link was %d of %d turns ahead", l.most/readTurn, turns)
	}
}
