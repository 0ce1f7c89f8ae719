package circuit

import (
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
)

// stuck is a circuit at a relay that reads no further.
type stuck struct {
	nextCircuit
	until chan struct{}
}

func (s *stuck) HandleCells([]byte) { <-s.until }

// TestFlooded: the relay is told of the link whose circuit had too many cells for the next
// relay, once.
func TestFlooded(t *testing.T) {
	onRig(t, func(r *rig) {
		queues := NewQueueLimits()
		queues.Out.Store(MinQueue)
		var told []*channel.Channel
		queues.Flooded = func(ch *channel.Channel) { told = append(told, ch) }
		r.server.cfg.Env.Queues = queues
		until := make(chan struct{})
		r.answer = func(n *nextCircuit) {
			n.circ.SetReceiver(&stuck{until: until})
			_ = n.circ.SendControl(cell.CmdCreated2, []byte{0, 4, 1, 2, 3, 4})
		}
		c := r.circuit(congested, nil)
		r.extend(c)
		for i := 0; i < 10*MinQueue && r.last().Err() == nil; i++ {
			junk := make([]byte, cell.Len)
			cell.PutHeader(junk, 0, cell.CmdRelay)
			if err := c.home.Load().Send(junk); err != nil {
				break
			}
			synctest.Wait()
		}
		if err := r.last().Err(); !fault.Is(err, fault.Resource) {
			t.Error(err)
		}
		if len(told) != 1 || told[0] != r.home {
			t.Errorf("told of %d", len(told))
		}
		close(until)
		r.nothingLeft("flooded")
	})
}
