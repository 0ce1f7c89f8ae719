package circuit

import (
	"crypto/rand"
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
)

// TestRekeyConfirmChecked: a relay takes new keys only for the CONFIRM of who has them.
func TestRekeyConfirmChecked(t *testing.T) {
	for _, flip := range []byte{0, 1, 0x80} {
		onRig(t, func(r *rig) {
			export := *r.circuit(congested, nil).Last().rekey.export
			h := r.first().Hops()[0]
			client, request, err := handshake.RekeyClient(rand.Reader, handshake.PQ512, export, nil)
			if err != nil {
				t.Fatal(err)
			}
			server, reply, ks, err := handshake.RekeyServer(rand.Reader, export, [][]byte{nil}, request)
			if err != nil {
				t.Fatal(err)
			}
			k, err := h.makeKeys(ks)
			if err != nil {
				t.Fatal(err)
			}
			confirm, _, err := client.Finish(reply)
			if err != nil {
				t.Fatal(err)
			}
			old := h.open
			h.rekey.doing = &rekeying{server: server, next: k.open, nextKeys: ks, set: handshake.PQ512}
			confirm[len(confirm)-1] ^= flip
			data := append([]byte{0, byte(len(confirm)), 0, 0}, confirm...)
			err = rekeyConfirm(h, cell.RelayMsg{Cmd: cell.RelayRekeyConfirm, Data: data}, cell.CmdRelay)
			switch {
			case flip == 0 && (err != nil || h.open != k.open):
				t.Errorf("the right one: %v, new keys: %v", err, h.open == k.open)
			case flip != 0 && (!fault.Is(err, fault.Protocol) || h.open != old):
				t.Errorf("with the bits %#x wrong: %v, new keys: %v", flip, err, h.open != old)
			}
		})
	}
}

// TestEmptyDataCounts: DATA without bytes counts as any other, so that both ends send and await
// SENDMEs for the same cells.
func TestEmptyDataCounts(t *testing.T) {
	onRig(t, func(r *rig) {
		sendmes := 0
		c := r.circuit(HopOptions{}, nil)
		c.handle = func(_ *Hop, m cell.RelayMsg, _ cell.Command) error {
			if m.Cmd == cell.RelaySendme {
				sendmes++
			}
			return nil
		}
		h := c.Last()
		if err := r.last().Last().AcceptStream(1, deaf{}); err != nil {
			t.Fatal(err)
		}
		for range 2 * h.Info().SendmeInc {
			if err := h.Send(cell.RelayData, 1, nil); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if err := r.last().Err(); err != nil || sendmes != 2 {
			t.Errorf("%d SENDMEs, not 2 (%v)", sendmes, err)
		}
	})
}

// TestOnionKEMIsReleased: the memory for a confirmation that is awaited, and for a ciphertext, is
// given back when it has come.
func TestOnionKEMIsReleased(t *testing.T) {
	onRig(t, func(r *rig) {
		e := r.kemEnds()
		client, service := e.client.Account().Used(), e.service.Account().Used()
		e.serve(t, nil)
		if held := e.service.Account().Used() - service; held < onionKEMCost {
			t.Errorf("%d bytes are counted while a ciphertext is awaited", held)
		}
		e.dial(t)
		synctest.Wait()
		for _, c := range []*Circuit{e.client, e.service} {
			if err := c.Err(); err != nil {
				t.Fatal(err)
			}
		}
		client, service = e.client.Account().Used()-client, e.service.Account().Used()-service
		if client >= onionKEMCost || service >= onionKEMCost {
			t.Errorf("after the confirmation, %d and %d bytes stay", client, service)
		}
	})
}
