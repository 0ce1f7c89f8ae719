package circuit

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
)

// created2 is a CREATED2's or EXTENDED2's body that claims a length.
func created2(claims int) []byte {
	return append([]byte{byte(claims >> 8), byte(claims)}, bytes.Repeat([]byte{7}, min(claims, 480))...)
}

// oddLengths are those of a handshake's answer: none is that of ntor-v3's with what the
// client has asked for.
var oddLengths = []int{0, 1, 31, 63, 64, 65, 95, 97, 480, 496, 505, 506, 507, 508, 0xffff}

// TestOddCreated2: an answer to CREATE2 or EXTEND2 of whatever length makes no hop, and costs
// the client this circuit.
func TestOddCreated2(t *testing.T) {
	for _, n := range oddLengths {
		t.Run(fmt.Sprint("CREATED2 of ", n), func(t *testing.T) {
			onRig(t, func(r *rig) {
				r.mute, r.answer = true, func(n2 *nextCircuit) { _ = n2.circ.SendControl(cell.CmdCreated2, created2(n)) }
				c, err := Create(r.t.Context(), r.env(), r.client, r.target, congested)
				if !fault.Is(err, fault.Protocol) || c != nil {
					t.Error(err)
				}
				synctest.Wait()
				if n, _ := r.client.Circuits(); n != 0 {
					t.Error("the circuit is left")
				}
			})
		})
		if n > 480 {
			continue // what a message cannot claim: see below
		}
		t.Run(fmt.Sprint("EXTENDED2 of ", n), func(t *testing.T) {
			onRig(t, func(r *rig) {
				r.say = func(h *Hop, m cell.RelayMsg) {
					if err := h.Send(cell.RelayExtended2, 0, created2(n)); err != nil {
						t.Error(err)
					}
				}
				c, err := Create(r.t.Context(), r.env(), r.client, r.target, congested)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Extend(r.t.Context(), r.next, congested); !fault.Is(err, fault.Protocol) || c.Err() == nil || len(c.Hops()) != 1 {
					t.Error(err)
				}
				r.nothingLeft("extended", c)
			})
		})
	}
}

// TestOddCreated2AtRelay: a relay sends the next one's answer on to the client if it fits a
// message, and else ends the circuit.
func TestOddCreated2AtRelay(t *testing.T) {
	for _, n := range oddLengths {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			onRig(t, func(r *rig) {
				r.answer = func(n2 *nextCircuit) {
					if n2.cmd == cell.CmdCreate2 {
						_ = n2.circ.SendControl(cell.CmdCreated2, created2(n))
					}
				}
				var got []cell.RelayMsg
				c := r.circuit(congested, func(_ *Hop, m cell.RelayMsg) {
					m.Data = bytes.Clone(m.Data)
					got = append(got, m)
				})
				at := r.last()
				r.extend(c)
				fits := 2+n <= at.Last().format.MaxData(false)
				if sent := len(got) == 1 && got[0].Cmd == cell.RelayExtended2 && len(got[0].Data) == 2+n; sent != fits {
					t.Errorf("it fits: %v; %v", fits, got)
				}
				if err := at.Err(); fits && err != nil || !fits && !fault.Is(err, fault.Protocol) {
					t.Errorf("it fits: %v; %v", fits, err)
				}
				c.Close(cell.DestroyNone, nil)
				r.nothingLeft("created", c)
			})
		})
	}
}

// TestEmptyBodies: END, TRUNCATE and TRUNCATED without a reason do what they do with one.
func TestEmptyBodies(t *testing.T) {
	for layer, o := range map[string]HopOptions{"tor1": {Handshake: handshake.Ntor}, "cgo": congested} {
		t.Run("TRUNCATE/"+layer, func(t *testing.T) {
			onRig(t, func(r *rig) {
				var got []cell.RelayCommand
				c := r.circuit(o, func(_ *Hop, m cell.RelayMsg) { got = append(got, m.Cmd) })
				r.extend(c)
				if err := c.Last().Send(cell.RelayTruncate, 0, nil); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if n, _ := r.onward.Circuits(); n != 0 || r.last().Err() != nil || len(got) != 1 || got[0] != cell.RelayTruncated {
					t.Errorf("%v; %v; %d circuits beyond", got, r.last().Err(), n)
				}
				c.Close(cell.DestroyNone, nil)
				r.nothingLeft("truncate", c)
			})
		})
		t.Run("TRUNCATED/"+layer, func(t *testing.T) {
			onRig(t, func(r *rig) {
				c, err := Create(r.t.Context(), r.env(), r.client, r.target, o)
				if err != nil {
					t.Fatal(err)
				}
				if err := r.last().Last().Send(cell.RelayTruncated, 0, nil); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if err := c.Err(); !fault.Is(err, fault.Protocol) {
					t.Error(err)
				}
				r.nothingLeft("truncated", c)
			})
		})
		t.Run("END/"+layer, func(t *testing.T) {
			onRig(t, func(r *rig) {
				c, err := Create(r.t.Context(), r.env(), r.client, r.target, o)
				if err != nil {
					t.Fatal(err)
				}
				var there, here []cell.RelayCommand
				var id uint16
				if err := c.Last().OpenStream(func(i uint16) StreamReceiver { id = i; return heard{all: &here} }); err != nil {
					t.Fatal(err)
				}
				at := r.last()
				if err := at.Last().AcceptStream(id, heard{all: &there}); err != nil {
					t.Fatal(err)
				}
				for _, h := range []*Hop{c.Last(), at.Last()} {
					if err := h.Send(cell.RelayEnd, id, nil); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				if len(there) != 1 || len(here) != 1 || c.Err() != nil || at.Err() != nil {
					t.Errorf("%v, %v; %v, %v", there, here, c.Err(), at.Err())
				}
				c.Close(cell.DestroyNone, nil)
				r.nothingLeft("end", c)
			})
		})
	}
}

// TestWaitEndsWithCircuit: a circuit that waits for a link to the next relay is off every
// waiting list as soon as it closes, however that happens: nothing finds it later.
func TestWaitEndsWithCircuit(t *testing.T) {
	over := fault.New(fault.Closed, "test")
	for name, end := range map[string]func(r *rig, c, at *Circuit){
		"DESTROY":             func(_ *rig, c, _ *Circuit) { c.Close(cell.DestroyNone, over) },
		"the relay closes it": func(_ *rig, _, at *Circuit) { at.Close(cell.DestroyNone, over) },
		"a violation":         func(_ *rig, c, _ *Circuit) { _ = c.Last().Send(cell.RelayConnected, 3, nil) },
		"evicted":             func(_ *rig, _, at *Circuit) { homeSide{at}.HandleDestroy(cell.DestroyResourceLimit, over) },
		"the client's link":   func(r *rig, _, _ *Circuit) { r.client.Close(over) },
		"TRUNCATE, then close": func(_ *rig, c, _ *Circuit) {
			_ = c.Last().Send(cell.RelayTruncate, 0, nil)
			synctest.Wait()
			c.Close(cell.DestroyNone, over)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				r.far = true
				began := time.Now()
				c := r.circuit(congested, nil)
				at := r.last()
				r.extend(c)
				s := r.server
				if r.dials.Load() != 1 || len(s.origins.links) != 1 {
					t.Errorf("%d dials, %d links wait", r.dials.Load(), len(s.origins.links))
				}
				end(r, c, at)
				synctest.Wait()
				if r.dials.Load() != 0 || len(s.origins.links) != 0 || at.partner.Load() != nil || time.Since(began) != 0 {
					t.Errorf("%d dials, %d links wait, after %v", r.dials.Load(), len(s.origins.links), time.Since(began))
				}
				c.Close(cell.DestroyNone, over)
				r.nothingLeft(name)
			})
		})
	}
}

// TestNoRelayEarlyToClient: a RELAY_EARLY cell from the next relay ends the circuit: it could
// tell a relay before this one something.
func TestNoRelayEarlyToClient(t *testing.T) {
	onRig(t, func(r *rig) {
		r.answer = func(n *nextCircuit) { _ = n.circ.SendControl(cell.CmdCreated2, created2(4)) }
		c := r.circuit(congested, nil)
		at := r.last()
		r.extend(c)
		b := make([]byte, cell.Len)
		cell.PutHeader(b, 0, cell.CmdRelayEarly)
		if err := r.atNext()[0].circ.Send(b); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := at.Err(); !fault.Is(err, fault.Protocol) {
			t.Error(err)
		}
		c.Close(cell.DestroyNone, nil)
		r.nothingLeft("early", c)
	})
}

// TestExtendInRelayCell: an EXTEND2 that is right in all else is refused in a RELAY cell.
func TestExtendInRelayCell(t *testing.T) {
	for cc, ok := range map[cell.Command]bool{cell.CmdRelay: false, cell.CmdRelayEarly: true} {
		onRig(t, func(r *rig) {
			c := r.circuit(congested, nil)
			at := r.last()
			if err := c.Last().sendCell(cc, cell.RelayExtend2, 0, extend2(r.next.Specs(), cell.HandshakeNtorV3, 100)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if err := at.Err(); ok && err != nil || !ok && !fault.Is(err, fault.Protocol) || (len(r.atNext()) == 1) != ok {
				t.Errorf("%v: %v; %d circuits at the next relay", cc, err, len(r.atNext()))
			}
			c.Close(cell.DestroyNone, nil)
			r.nothingLeft("extend", c)
		})
	}
}
