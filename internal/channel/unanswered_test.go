package channel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// TestUnanswered: a link is in doubt when its peer has said nothing for the whole patience since
// it was first asked, however short each question waited, and until the peer says something.
func TestUnanswered(t *testing.T) {
	const patience = time.Minute
	pair(t, Config{}, Config{}, func(a, b *Channel, accepted chan *sink) {
		doubted := func() bool { return a.lastIn.Load() <= a.doubt.Load() }
		ask := func() { // and wait for 10 seconds
			t.Helper()
			asked := time.Now()
			time.Sleep(10 * time.Second)
			a.Unanswered(asked, patience)
		}
		speak := func() {
			time.Sleep(time.Second)
			b.sendUrgent(cell.AppendFixed(nil, 0, cell.CmdPadding, nil))
			synctest.Wait()
		}
		time.Sleep(time.Hour) // idle, which says nothing
		for i := range 5 {
			if ask(); doubted() {
				t.Fatalf("in doubt after %d questions", i+1)
			}
		}
		speak()
		for i := range 5 {
			if ask(); doubted() {
				t.Fatalf("in doubt after %d questions since the peer spoke", i+1)
			}
		}
		if ask(); !doubted() {
			t.Fatal("not in doubt after a minute")
		}
		first := a.unanswered
		a.Unanswered(first.Add(-time.Second), 2*patience) // another one that was asked earlier
		if !doubted() {
			t.Error("an earlier question ended the doubt")
		}
		speak()
		if doubted() {
			t.Error("in doubt although the peer has spoken")
		}
		if a.Unanswered(first, patience); doubted() {
			t.Error("in doubt because of what was asked before the peer spoke")
		}
	})
}
