package circuit

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// linking begins a set.
func (r *rig) linking() *Linking {
	r.t.Helper()
	k, err := NewLinking(cell.ConfluxHighThroughput)
	if err != nil {
		r.t.Fatal(err)
	}
	return k
}

// answers has the relay answer each LINK after a time, and note what it hears on each of its circuits.
func (r *rig) answers(after ...time.Duration) (heard map[*Circuit][]cell.RelayCommand, nonces map[[32]byte]int) {
	heard, nonces = map[*Circuit][]cell.RelayCommand{}, map[[32]byte]int{}
	r.say = func(h *Hop, m cell.RelayMsg) {
		heard[h.c] = append(heard[h.c], m.Cmd)
		if m.Cmd != cell.RelayConfluxLink {
			return
		}
		link, err := cell.ParseConfluxLink(m.Data)
		if err != nil {
			r.t.Error(err)
		}
		nonces[link.Nonce]++
		at, _ := r.all()
		body, d := link.Append(nil), after[slices.Index(at, h.c)]
		if d < 0 {
			return
		}
		time.AfterFunc(d, func() { _ = h.Send(cell.RelayConfluxLinked, 0, body) })
	}
	return heard, nonces
}

// TestLegByLeg: each leg is asked for and acknowledged by itself, with one nonce, and the set begins on the one with the
// lowest round-trip time. A leg that is too slow is closed without an answer, and another one takes its place.
func TestLegByLeg(t *testing.T) {
	onRig(t, func(r *rig) {
		heard, nonces := r.answers(3*time.Second, 10*time.Second, time.Second)
		k := r.linking()
		legs := append(r.legs(), r.legs()[0])
		slow := func(rtt time.Duration) bool { return rtt >= 10*time.Second }
		if err := k.Link(r.t.Context(), legs[0], slow); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		at, _ := r.all()
		whole := []cell.RelayCommand{cell.RelayConfluxLink, cell.RelayConfluxLinkedAck}
		if !slices.Equal(heard[at[0]], whole) || len(heard) != 1 {
			t.Errorf("with one leg built, the exit has heard %v", heard)
		}
		if err := k.Link(r.t.Context(), legs[1], slow); !errors.Is(err, ErrLinkSlow) || !errors.Is(legs[1].Err(), ErrLinkSlow) || legs[0].Err() != nil {
			t.Error(err)
		}
		if err := k.Link(r.t.Context(), legs[2], slow); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !slices.Equal(heard[at[1]], whole[:1]) || !slices.Equal(heard[at[2]], whole) || len(nonces) != 1 {
			t.Errorf("%v, with %d nonces", heard, len(nonces))
		}
		set, err := k.Join([]*Circuit{legs[0], legs[2]})
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Legs(); !slices.Equal(got, []*Circuit{legs[2], legs[0]}) {
			t.Errorf("the order of the legs is not that of their round-trip times")
		}
		open := func(uint16) StreamReceiver { return deaf{} }
		if a, b := legs[2].Last().OpenStream(open), legs[0].Last().OpenStream(open); a != nil || !fault.Is(b, fault.Local) {
			t.Error(a, b)
		}
		legs[0].Close(cell.DestroyNone, nil)
		r.clientLeft(legs...)
	})
}

// clientLeft checks that nothing is left at the client of circuits to a relay that says what a test wants.
func (r *rig) clientLeft(legs ...*Circuit) {
	r.t.Helper()
	for _, c := range legs {
		if c != nil {
			c.Close(cell.DestroyNone, nil)
		}
	}
	at, _ := r.all()
	for _, c := range at {
		c.Close(cell.DestroyNone, nil)
	}
	synctest.Wait()
	r.nothingLeft("client", legs...)
}

// TestSetOfOne: a leg that stays alone is a set.
func TestSetOfOne(t *testing.T) {
	onRig(t, func(r *rig) {
		k, c := r.linking(), r.legs()[0]
		if err := k.Link(r.t.Context(), c, nil); err != nil {
			t.Fatal(err)
		}
		set, err := k.Join([]*Circuit{c})
		if err != nil || len(set.Legs()) != 1 {
			t.Fatal(err)
		}
		if err := c.Last().OpenStream(func(uint16) StreamReceiver { return deaf{} }); err != nil {
			t.Error(err)
		}
		r.clientLeft(c)
	})
}

// TestHostileWhileLinking: whatever an exit says on a leg that is being linked, or waits for the others, ends at most
// that leg; nothing hangs, and nothing is left.
func TestHostileWhileLinking(t *testing.T) {
	m := cell.ConfluxLink{}
	send := func(cmd cell.RelayCommand, stream uint16, body []byte) func(h *Hop) {
		return func(h *Hop) { _ = h.sendCell(cell.CmdRelay, cmd, stream, body) }
	}
	for name, say := range map[string]func(h *Hop){
		"LINKED":     send(cell.RelayConfluxLinked, 0, m.Append(nil)),
		"SWITCH":     send(cell.RelayConfluxSwitch, 0, []byte{0, 0, 0, 1}),
		"LINKED_ACK": send(cell.RelayConfluxLinkedAck, 0, nil),
		"LINK":       send(cell.RelayConfluxLink, 0, m.Append(nil)),
		"END":        send(cell.RelayEnd, 1, []byte{1}),
		"DATA":       send(cell.RelayData, 1, []byte("x")),
		"CONNECTED":  send(cell.RelayConnected, 1, nil),
		"DESTROY":    func(h *Hop) { h.c.Close(cell.DestroyProtocol, nil) },
	} {
		for _, when := range []string{"before LINK", "before LINKED", "before the set", "in the set"} {
			if name == "SWITCH" && when == "in the set" {
				continue // it may
			}
			t.Run(name+" "+when, func(t *testing.T) {
				onRig(t, func(r *rig) {
					second := time.Duration(0)
					if when == "before LINKED" {
						second = -1
					}
					r.answers(0, second)
					k, legs := r.linking(), r.legs()
					at := r.last() // the second leg's
					now := func(step string) {
						if step == when {
							say(at.Last())
							synctest.Wait()
						}
					}
					if err := k.Link(r.t.Context(), legs[0], nil); err != nil {
						t.Fatal(err)
					}
					now("before LINK")
					linked := make(chan error, 1)
					ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
					defer cancel()
					go func() { linked <- k.Link(ctx, legs[1], nil) }()
					synctest.Wait()
					now("before LINKED")
					err := <-linked
					if (err == nil) != (when == "before the set" || when == "in the set") {
						t.Errorf("the leg is linked: %v", err)
					}
					now("before the set")
					if legs[0].Err() != nil {
						t.Errorf("the other leg: %v", legs[0].Err())
					}
					live := legs[:1]
					if when == "in the set" {
						live = legs
					}
					if _, err := k.Join(live); err != nil {
						t.Fatal(err)
					}
					now("in the set")
					if legs[1].Err() == nil {
						t.Error("the leg lives")
					}
					r.clientLeft(legs...)
				})
			})
		}
	}
}

// TestJoinOfTheDead: a leg that ended after it was linked takes the set with it, if the set did not know.
func TestJoinOfTheDead(t *testing.T) {
	onRig(t, func(r *rig) {
		k, legs := r.linking(), r.legs()
		for _, c := range legs {
			if err := k.Link(r.t.Context(), c, nil); err != nil {
				t.Fatal(err)
			}
		}
		legs[1].Close(cell.DestroyNone, fault.New(fault.Closed, "test"))
		_, _ = k.Join(legs)
		synctest.Wait()
		if legs[0].Err() == nil {
			t.Error("the set lives")
		}
		r.clientLeft(legs...)
	})
}

// TestLinkFalse: an exit that counts messages of a new set is told apart from one that answers for another set.
func TestLinkFalse(t *testing.T) {
	for _, c := range []struct {
		change func(*cell.ConfluxLink)
		says   bool
	}{{func(m *cell.ConfluxLink) { m.LastSent = 1 }, true}, {func(m *cell.ConfluxLink) { m.LastRecv = 1 }, true}, {func(m *cell.ConfluxLink) { m.Nonce[0] ^= 1 }, false}} {
		onRig(t, func(r *rig) {
			r.say = func(h *Hop, m cell.RelayMsg) {
				link, err := cell.ParseConfluxLink(m.Data)
				if err != nil {
					t.Error(err)
				}
				c.change(&link)
				_ = h.Send(cell.RelayConfluxLinked, 0, link.Append(nil))
			}
			leg := r.legs()[0]
			if err := r.linking().Link(r.t.Context(), leg, nil); errors.Is(err, ErrLinkFalse) != c.says || !fault.Is(err, fault.Protocol) {
				t.Error(err)
			}
			r.clientLeft(leg)
		})
	}
}
