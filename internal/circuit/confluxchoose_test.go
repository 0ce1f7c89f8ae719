package circuit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
)

// counted counts the messages of a stream.
type counted struct {
	deaf
	n *int
}

func (s counted) HandleMessage(cell.RelayMsg, time.Time) error { *s.n++; return nil }

// leg makes a circuit with stream 1 a leg of the rig's set, and counts what comes on it.
func (r *rig) leg(link *channel.Channel, n *int) *Circuit {
	r.t.Helper()
	c := r.circuitOver(link, congested, nil)
	if err := c.Last().AcceptStream(1, counted{n: n}); err != nil {
		r.t.Fatal(err)
	}
	r.linkSet(c)
	return c
}

// acknowledge sends LINKED_ACK some time after LINK.
func (r *rig) acknowledge(c *Circuit, after time.Duration) {
	r.t.Helper()
	time.Sleep(after)
	if err := c.Last().Send(cell.RelayConfluxLinkedAck, 0, nil); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// TestExitWaitsForAck: an exit does not prefer the leg of which it does not know the
// round-trip time: its LINKED_ACK comes last because it is slow.
func TestExitWaitsForAck(t *testing.T) {
	onRig(t, func(r *rig) {
		var n [2]int
		legs := []*Circuit{r.leg(r.client, &n[0]), r.leg(r.client, &n[1])}
		r.acknowledge(legs[0], time.Millisecond)
		if _, _, err := r.first().Last().SendData(NewWaiter(), 1, []byte("x"), 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n != [2]int{1, 0} {
			t.Errorf("cells by leg: %v", n)
		}
		legs[0].Close(cell.DestroyNone, nil)
		legs[1].Close(cell.DestroyNone, nil)
	})
}

// TestBlockedLeg: a leg on a channel that takes no more cells does not hold up the set,
// although its window is open.
func TestBlockedLeg(t *testing.T) {
	onRig(t, func(r *rig) {
		var n [2]int
		legs := []*Circuit{r.leg(r.client, &n[0]), r.leg(r.beyond, &n[1])}
		reads := make(chan struct{})
		legs[0].handle = func(*Hop, cell.RelayMsg, cell.Command) error { <-reads; return nil }
		if err := r.first().Last().Send(cell.RelayDrop, 0, nil); err != nil { // the client's reader stops
			t.Fatal(err)
		}
		h := r.first().Last()
		r.first().mu.Lock()
		h.set.Load().legs[0].rtt, h.set.Load().legs[1].rtt = time.Millisecond, time.Second
		window := h.send.Available()
		r.first().mu.Unlock()
		sent := 0
		for w := NewWaiter(); sent < window; {
			_, k, err := h.SendData(w, 1, make([]byte, 400), 1)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if k == 0 {
				break
			}
			sent++
		}
		if sent < window || n[1] == 0 {
			t.Errorf("%d cells of a window of %d; cells by leg: %v", sent, window, n)
		}
		close(reads)
		synctest.Wait()
		legs[0].Close(cell.DestroyNone, nil)
		legs[1].Close(cell.DestroyNone, nil)
	})
}

// TestFastestLegIsFirst: a client measures each leg by itself, whichever answers first,
// and its streams begin on the fastest one.
func TestFastestLegIsFirst(t *testing.T) {
	for _, slow := range []int{0, 1} {
		onRig(t, func(r *rig) {
			var begun *Circuit
			r.say = func(h *Hop, m cell.RelayMsg) {
				switch m.Cmd {
				case cell.RelayConfluxLink:
					body := append([]byte(nil), m.Data...)
					go func() {
						if all, _ := r.all(); h.c == all[slow] {
							time.Sleep(time.Second)
						}
						_ = h.Send(cell.RelayConfluxLinked, 0, body)
					}()
				case cell.RelayBegin:
					begun = h.c
				}
			}
			var legs []*Circuit
			for range 2 {
				c, err := Create(r.t.Context(), r.env(), r.client, r.target, congested)
				if err != nil {
					t.Fatal(err)
				}
				legs = append(legs, c)
			}
			set, err := LinkConflux(r.t.Context(), legs, cell.ConfluxHighThroughput)
			if err != nil {
				t.Fatal(err)
			}
			fast := 1 - slow
			if set.Legs()[0] != legs[fast] || set.legs[0].rtt != 0 || set.legs[1].rtt != time.Second {
				t.Errorf("slow: %d; %v, %v", slow, set.legs[0], set.legs[1])
			}
			set.legs[0].rtt = time.Millisecond // a real one is not zero
			if err := set.Legs()[0].Last().Send(cell.RelayBegin, 1, []byte("x:1\x00")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if begun != r.accepted[fast] {
				t.Errorf("slow: %d; BEGIN came by the slow leg", slow)
			}
			legs[0].Close(cell.DestroyNone, nil)
		})
	}
}
