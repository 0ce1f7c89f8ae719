package circuit

import (
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// noting is the first hop's layer, which notes what its relay sees of each cell.
type noting struct {
	clear
	seen *[]cell.Command
}

func (n noting) Originate(cmd cell.Command, _ *[cell.PayloadLen]byte) { *n.seen = append(*n.seen, cmd) }
func (n noting) Encrypt(cmd cell.Command, _ *[cell.PayloadLen]byte)   { *n.seen = append(*n.seen, cmd) }

// TestEarlyCellsAreSpent: the first cells beyond the guard are RELAY_EARLY cells until none
// is left, whatever they carry, as those of C tor's client are.
func TestEarlyCellsAreSpent(t *testing.T) {
	onRig(t, func(r *rig) {
		p := r.padded("")
		var seen []cell.Command
		guard, exit := p.client.Hops()[0], p.client.Hops()[1]
		guard.seal = noting{seen: &seen}
		p.relay.handle = ignorant(nil)
		if err := exit.AcceptStream(1, deaf{}); err != nil {
			t.Fatal(err)
		}
		if err := p.relay.Last().AcceptStream(1, deaf{}); err != nil {
			t.Fatal(err)
		}
		expect := func(what string, early, plain int) {
			t.Helper()
			synctest.Wait()
			for i, cmd := range seen {
				want := cell.CmdRelay
				if i < early {
					want = cell.CmdRelayEarly
				}
				if cmd != want {
					t.Errorf("%s: cell %d is %v, not %v", what, i+1, cmd, want)
				}
			}
			if len(seen) != early+plain {
				t.Errorf("%s: %d cells, not %d", what, len(seen), early+plain)
			}
			seen = nil
		}
		send := func(h *Hop, cmd cell.RelayCommand) {
			t.Helper()
			if err := h.Send(cmd, 0, nil); err != nil {
				t.Fatal(err)
			}
		}
		// What the guard gets itself, and fragments, which may come before an extend.
		p.client.mu.Lock()
		if cmd := p.client.spendLocked(guard, cell.RelayBeginDir); cmd != cell.CmdRelay {
			t.Errorf("to the guard: %v", cmd)
		}
		err := exit.sendLongLocked(cell.RelayRekeyRequest, make([]byte, 900))
		p.client.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		expect("fragments", 0, 2)
		if err := exit.SendEarly(cell.RelayExtend2, 0, nil); err != nil {
			t.Fatal(err)
		}
		send(exit, cell.RelayPaddingNegotiate)
		expect("about the circuit", 2, 0)
		if _, n, err := exit.SendData(NewWaiter(), 1, make([]byte, 4*exit.Info().MaxData), 4); err != nil || n != 4 {
			t.Fatal(n, err)
		}
		expect("DATA", 4, 0)
		if _, n, err := exit.SendData(NewWaiter(), 1, make([]byte, 4*exit.Info().MaxData), 4); err != nil || n != 4 {
			t.Fatal(n, err)
		}
		expect("the last ones", relayEarlyBudget-6, 4-(relayEarlyBudget-6))
		send(exit, cell.RelayDrop)
		expect("after them", 0, 1)
		if err := exit.SendEarly(cell.RelayExtend2, 0, nil); !fault.Is(err, fault.Resource) {
			t.Error(err)
		}
		if err := p.relay.Err(); err != nil {
			t.Error(err)
		}
		p.client.Close(cell.DestroyNone, nil)
	})
}

// TestEarlyCellsOfAClient: a client begins with eight or seven, at random.
func TestEarlyCellsOfAClient(t *testing.T) {
	onRig(t, func(r *rig) {
		var n [relayEarlyBudget + 1]int
		for range 64 {
			c, err := Create(r.t.Context(), r.env(), r.client, r.target, congested)
			if err != nil {
				t.Fatal(err)
			}
			n[c.early]++
			c.Close(cell.DestroyNone, nil)
		}
		if n[7] == 0 || n[8] == 0 || n[7]+n[8] != 64 {
			t.Errorf("circuits by their RELAY_EARLY cells: %v", n)
		}
	})
}
