package circuit

import (
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/cell"
)

// TestNoSuchStream: a relay drops a client's messages for streams that it does not have, and
// counts the DATA among them. A client ends the circuit.
func TestNoSuchStream(t *testing.T) {
	end := cell.End{Reason: cell.EndMisc}
	for name, c := range map[string]struct {
		cmd  cell.RelayCommand
		body []byte
	}{
		"DATA": {cell.RelayData, []byte("x")}, "END": {cell.RelayEnd, end.Append(nil)}, "SENDME": {cell.RelaySendme, nil},
		"XON": {cell.RelayXon, []byte{0, 0, 0, 0, 1}}, "XOFF": {cell.RelayXoff, []byte{0}},
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				acked := 0
				client := r.circuit(HopOptions{}, nil)
				client.handle = func(_ *Hop, m cell.RelayMsg, _ cell.Command) error {
					if m.Cmd == cell.RelaySendme {
						acked++
					}
					return nil
				}
				at := r.last()
				for range client.Last().info.SendmeInc {
					if err := client.Last().Send(c.cmd, 7, c.body); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				want := 0
				if c.cmd == cell.RelayData {
					want = 1
				}
				if at.Err() != nil || client.Err() != nil || acked != want {
					t.Errorf("%v, %v; %d SENDMEs, not %d", at.Err(), client.Err(), acked, want)
				}
				if err := at.Last().Send(c.cmd, 7, c.body); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if c.cmd != cell.RelaySendme && client.Err() == nil {
					t.Error("the client goes on")
				}
				client.Close(cell.DestroyNone, nil)
				r.nothingLeft(name)
			})
		})
	}
}
