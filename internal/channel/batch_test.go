package channel

import (
	"log/slog"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// batcher counts the cells that were followed by the end of their batch.
type batcher struct {
	*sink
	want int
	done chan struct{} // closed when that is all
}

func (b *batcher) HandleBatchEnd() {
	if b.count() == b.want {
		close(b.done)
	}
}

// TestEveryCellsBatchEnds: however the socket cuts what circuits send, the end
// of a batch follows the last cell of each, once.
func TestEveryCellsBatchEnds(t *testing.T) {
	const circuits, runs, run = 6, 100, 7
	l, r := links(t)
	cfg := Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	served := cfg
	accepted := make(chan *batcher, circuits)
	served.Accept = func(c *CircuitEnd, _ cell.Command, _ []byte) {
		b := &batcher{newSink(), runs * run, make(chan struct{})}
		c.SetReceiver(b)
		accepted <- b
	}
	a, b := Start(l, &cfg), Start(r, &served)
	var circs []*CircuitEnd
	for range circuits {
		c, err := a.Open(newSink(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SendControl(cell.CmdCreate2, nil); err != nil {
			t.Fatal(err)
		}
		circs = append(circs, c)
	}
	for range runs {
		for _, c := range circs {
			cells := numbered(0, run)
			for i := 0; i < len(cells); i += cell.Len {
				cell.PutHeader(cells[i:], c.ID(), cell.CmdRelay)
			}
			if err := c.Send(cells); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range circs {
		<-(<-accepted).done
	}
	a.Close(fault.New(fault.Closed, "the test is over"))
	<-a.Done()
	<-b.Done()
}
