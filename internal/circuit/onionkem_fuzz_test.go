package circuit

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
)

// FuzzOnionCiphertext: a service that was promised a ciphertext takes its three
// fragments, in order and in time, and nothing else: every other sequence of what a
// client can send ends the circuit without protection.
func FuzzOnionCiphertext(f *testing.F) {
	const next, again, changed, begin, drop, confirm, wait = 0, 1, 2, 3, 4, 5, 6
	const cgo = 0x80 // in the first byte: the ends agreed on CGO
	f.Add([]byte{next, next, next})
	f.Add([]byte{next, wait, next, wait, next, wait})
	f.Add([]byte{next, again, next, next})
	f.Add([]byte{begin, next, next, next})
	f.Add([]byte{next, next, changed})
	f.Add([]byte{next, next, next, next, drop, confirm})
	f.Add(bytes.Repeat([]byte{wait}, 20))
	f.Add([]byte{cgo | next, next, next})
	f.Add([]byte{cgo | next, next, again})
	f.Add([]byte{cgo | begin, next, next})
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) > 40 {
			return
		}
		onRig(t, func(r *rig) {
			e := r.kemEnds()
			format := cell.RelayV0
			if e.cgo = len(ops) > 0 && ops[0]&cgo != 0; e.cgo {
				format = cell.RelayV1
			}
			service := new(taker)
			sh := e.serve(t, service)
			ch, err := e.client.AddVirtualHop(VirtualHop{Keys: e.ck, SendmeInc: 31, CGO: e.cgo})
			if err != nil {
				t.Fatal(err)
			}
			// The client is hostile: it does not mind the confirmation.
			e.client.handle = func(*Hop, cell.RelayMsg, cell.Command) error { return nil }
			ct, _ := e.ciphertext(t)
			parts, err := handshake.AppendFragments(nil, ct, format.MaxData(false))
			if err != nil {
				t.Fatal(err)
			}
			send := func(cmd cell.RelayCommand, stream uint16, body []byte) {
				if err := fault.Except(fault.Closed, ch.Send(cmd, stream, body)); err != nil {
					t.Fatal(err)
				}
			}
			sent, kept, broken := 0, false, false
			var since, began time.Duration // the hop's age, and its age at the first fragment
			for _, op := range ops {
				good := false
				switch op &^ cgo % 7 {
				case next, again:
					i := sent
					if op&^cgo%7 == again {
						i = max(0, sent-1)
					}
					send(cell.RelayOnionCiphertext, 0, parts[min(i, len(parts)-1)])
					good = i == sent && sent < len(parts)
					if good && sent == 0 {
						began = since
					}
				case changed:
					b := bytes.Clone(parts[min(sent, len(parts)-1)])
					b[len(b)-1] ^= 1
					send(cell.RelayOnionCiphertext, 0, b)
					good = sent < len(parts)-1 // the hash is compared at the end
					if good && sent == 0 {
						began = since
					}
					if good {
						ct = nil // from now on it is another ciphertext
					}
				case begin:
					send(cell.RelayBegin, 7, []byte(":80\x00"))
				case drop:
					send(cell.RelayDrop, 0, nil)
				case confirm:
					send(cell.RelayOnionConfirm, 0, make([]byte, 36))
				case wait:
					time.Sleep(3 * time.Second)
					since += 3 * time.Second
					late := since >= OnionKEMTimeout || sent > 0 && since-began >= handshake.FragmentTimeout
					broken = broken || !kept && late
					good = true
				}
				synctest.Wait()
				if !good {
					broken = true
				} else if op&^cgo%7 != wait && !broken && !kept {
					if sent++; sent == len(parts) {
						kept, broken = ct != nil, ct == nil
					}
				}
				if closed := e.service.Err() != nil; closed != broken {
					t.Errorf("%v: closed %v (%v), it should be %v", ops, closed, e.service.Err(), broken)
					break
				}
				if broken {
					break
				}
			}
			if protected := !sh.Protection().IsZero(); protected != kept || len(service.ports) != 0 {
				t.Errorf("%v: protected %v, it should be %v; ports %v", ops, protected, kept, service.ports)
			}
		})
	})
}
