package channel

import (
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// answerer answers each cell with one of its own, and has another goroutine send one more.
type answerer struct {
	*sink
	c    *CircuitEnd
	wake chan struct{}
}

func (a *answerer) HandleCells([]byte) {
	sendOne(a.c)
	a.wake <- struct{}{}
	a.c.Channel().LetRun()
}

func sendOne(c *CircuitEnd) {
	b := numbered(0, 1)
	cell.PutHeader(b, c.ID(), cell.CmdRelay)
	if err := c.Send(b); err != nil {
		panic(err)
	}
}

// teller tells how many cells came.
type teller struct {
	*sink
	came chan int
}

func (t *teller) HandleCells(cells []byte) { t.came <- len(cells) / cell.Len }

// TestLetRun: what another goroutine queues after the reader has woken it leaves in the
// reader's record.
func TestLetRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // else it may run at the same time
	const tries = 40
	l, r := links(t)
	cfg := Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	served := cfg
	served.Stats = new(Stats)
	wake := make(chan struct{}, 1)
	served.Accept = func(c *CircuitEnd, _ cell.Command, _ []byte) {
		c.SetReceiver(&answerer{newSink(), c, wake})
		go func() {
			for range wake {
				sendOne(c)
			}
		}()
	}
	a, b := Start(l, &cfg), Start(r, &served)
	got := &teller{newSink(), make(chan int, 2)}
	c, err := a.Open(got, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SendControl(cell.CmdCreate2, nil); err != nil {
		t.Fatal(err)
	}
	for range tries {
		sendOne(c)
		for n := 0; n < 2; n += <-got.came {
		}
	}
	// Now and then Go's scheduler has the reader go on before the others have run.
	if n := served.Stats.RecordsOut.Load(); n > tries*5/4 {
		t.Errorf("%d records carried %d answers of two cells", n, tries)
	}
	a.Close(fault.New(fault.Closed, "the test is over"))
	<-a.Done()
	<-b.Done()
	close(wake)
}
