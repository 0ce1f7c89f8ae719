package circuit

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// TestNothingAfterClose: when a message makes a relay close its circuit, the messages behind
// it that came in the same batch are not looked at.
func TestNothingAfterClose(t *testing.T) {
	onRig(t, func(r *rig) {
		heard := 0
		r.say = func(h *Hop, m cell.RelayMsg) {
			switch heard++; heard {
			case 1, 2: // the rest comes meanwhile, and is one batch: the link's other end may have written one more by now
				time.Sleep(time.Second)
			case 3:
				h.Circuit().Close(cell.DestroyResourceLimit, errors.New("too many"))
			}
		}
		client := r.circuit(HopOptions{}, nil)
		for range 20 {
			if err := client.Last().Send(cell.RelayBegin, 1, []byte("x:1\x00")); err != nil {
				break
			}
		}
		<-client.Done()
		synctest.Wait()
		if heard != 3 {
			t.Errorf("%d messages were looked at, not 3", heard)
		}
		r.nothingLeft("after the batch")
	})
}
