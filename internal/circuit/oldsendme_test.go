package circuit

import (
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
)

// TestOldClients: clients before C tor 0.4.1 fetch the consensus, which tells them that they are
// too old, over CREATE_FAST, and acknowledge with empty SENDMEs. They may do that there and
// nowhere else, and no more often than one is due.
func TestOldClients(t *testing.T) {
	for name, c := range map[string]struct {
		hand    *handshake.Kind
		sendmes int
		lives   bool
	}{
		"CREATE_FAST":           {handshake.Fast, 3, true},
		"CREATE_FAST, too many": {handshake.Fast, 4, false},
		"ntor":                  {handshake.Ntor, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				h := r.circuit(HopOptions{Handshake: c.hand}, nil).Last()
				h.recv = *flow.NewReceiver(1 << 30) // the test acknowledges
				if err := h.AcceptStream(1, deaf{}); err != nil {
					t.Fatal(err)
				}
				relay := r.last().Last()
				for sent := 0; sent < 350; {
					_, cells, err := relay.SendData(NewWaiter(), 1, make([]byte, 50*498), 50)
					if err != nil || cells == 0 {
						t.Fatal(sent, cells, err)
					}
					sent += cells
					synctest.Wait()
				}
				before := relay.SendFlow()
				for range c.sendmes {
					if err := h.Send(cell.RelaySendme, 0, nil); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				if err := relay.Circuit().Err(); (err == nil) != c.lives {
					t.Fatal(err)
				}
				if got := relay.SendFlow() - before; c.lives && got != c.sendmes*flow.CircWindowIncrement {
					t.Errorf("the window has opened by %d cells", got)
				}
			})
		})
	}
}
