package channel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// TestSilence: a link that was silenced says nothing more, whatever ends on it.
func TestSilence(t *testing.T) {
	pair(t, Config{}, Config{}, func(a, b *Channel, accepted chan *sink) {
		m := &Manager{cfg: a.cfg, clients: map[*Channel]struct{}{a: {}}}
		var circs []*CircuitEnd
		for range 2 {
			c, err := a.Open(newSink(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.SendControl(cell.CmdCreate2, nil); err != nil {
				t.Fatal(err)
			}
			<-accepted
			circs = append(circs, c)
		}
		synctest.Wait()
		before := b.cfg.Stats.CellsIn.Load()
		m.Silence()
		sendOne(circs[0])
		for _, c := range circs {
			c.Destroy(cell.DestroyNone)
		}
		a.sendUrgent(make([]byte, cell.Len))
		time.Sleep(time.Hour)
		if n := b.cfg.Stats.CellsIn.Load() - before; n != 0 {
			t.Errorf("%d cells after the silence", n)
		}
		if _, err := m.adopt(&Link{Conn: a.link.Conn}); err == nil {
			t.Error("a link was opened after the silence")
		}
	})
}
