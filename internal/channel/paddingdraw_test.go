package channel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// TestPaddingIsDrawnAnew: each cell that passes has a new timeout drawn. On a link with a cell in
// five seconds, the greater of two draws from 1.5 to 9.5 seconds comes first after 19 % of them. A
// timeout that is kept until it has passed would soon be longer than the gaps, and stay.
func TestPaddingIsDrawnAnew(t *testing.T) {
	pads := Config{Padding: NewPadding(DefaultPadding(PadFull))}
	pair(t, pads, Config{}, func(a, b *Channel, accepted chan *sink) {
		c, err := a.Open(newSink(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SendControl(cell.CmdCreate2, nil); err != nil {
			t.Fatal(err)
		}
		<-accepted
		a.NoteMultiHop()
		synctest.Wait()
		const gaps = 4000
		before := b.cfg.Stats.CellsIn.Load()
		for range gaps {
			sendOne(c)
			time.Sleep(5 * time.Second)
		}
		n := b.cfg.Stats.CellsIn.Load() - before - gaps
		// 766 are expected, with a deviation of 25, and a few more for second ones in a gap.
		if n < 600 || n > 950 {
			t.Errorf("%d padding cells in %d gaps", n, gaps)
		}
	})
}
