package circuit

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// TestLinkAfterStream: a circuit on which a stream or a name was asked for becomes no leg,
// also while nothing of it is left, or when it was refused.
func TestLinkAfterStream(t *testing.T) {
	begin := cell.Begin{Host: "name.test", Port: 80}
	for cmd, body := range map[cell.RelayCommand][]byte{
		cell.RelayBegin:    begin.Append(nil),
		cell.RelayBeginDir: nil,
		cell.RelayResolve:  []byte("name.test\x00"),
	} {
		for name, streams := range map[string]StreamHandler{"under way": undecided{}, "refused": nil} {
			t.Run(cmd.String()+"/"+name, func(t *testing.T) {
				onRig(t, func(r *rig) {
					r.server.cfg.Streams = streams
					c := r.circuit(congested, nil)
					at := r.last()
					var answers []cell.RelayCommand
					_ = c.Last().AcceptStream(7, heard{all: &answers}) // else the END of a refused one closes the circuit here
					if err := c.Last().Send(cmd, 7, body); err != nil {
						t.Fatal(err)
					}
					m := cell.ConfluxLink{Nonce: [32]byte{1}}
					if err := c.Last().Send(cell.RelayConfluxLink, 0, m.Append(nil)); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					if err := at.Err(); !fault.Is(err, fault.Protocol) || !strings.Contains(err.Error(), "CONFLUX_LINK") {
						t.Error(err)
					}
					r.nothingLeft(name)
				})
			})
		}
	}
}

// undecided takes streams and does nothing with them.
type undecided struct{}

func (undecided) HandleStream(*Hop, cell.RelayMsg) error { return nil }

// lateLeg sends a LINK for the rig's set on a new circuit.
func (r *rig) lateLeg(m cell.ConfluxLink, take func(*Hop, cell.RelayMsg)) (c, at *Circuit) {
	r.t.Helper()
	c = r.circuit(congested, take)
	at = r.last()
	m.Nonce = [32]byte{1}
	if err := c.Last().Send(cell.RelayConfluxLink, 0, m.Append(nil)); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return c, at
}

// xon is a message with a number that no window counts.
func xon(t *testing.T, send func(cmd cell.RelayCommand, stream uint16, body []byte) error, n int) {
	t.Helper()
	for i := range n {
		if i%1000 == 999 { // before the queue is full
			synctest.Wait()
		}
		if err := send(cell.RelayXon, 9, []byte{0, 0, 0, 0, 1}); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
}

// TestLateLeg: a leg that comes late counts from what LINKED says, in both directions, and
// a client that has received more than was sent gets none.
func TestLateLeg(t *testing.T) {
	onRig(t, func(r *rig) {
		first := r.circuit(congested, nil)
		var there, here []cell.RelayCommand // what the client's stream gets on each leg
		_ = first.Last().AcceptStream(9, heard{all: &there})
		r.linkSet(first)
		s := r.first().Last().Conflux()
		xon(t, s.send, 3)
		xon(t, first.Last().Send, 2)
		if liar, at := r.lateLeg(cell.ConfluxLink{LastSent: 2, LastRecv: 4}, nil); !fault.Is(at.Err(), fault.Protocol) || r.first().Err() != nil {
			t.Errorf("it received more than was sent: %v; the set: %v", at.Err(), r.first().Err())
		} else {
			liar.Close(cell.DestroyNone, nil)
		}
		var got []cell.RelayMsg
		late, at := r.lateLeg(cell.ConfluxLink{LastSent: 2, LastRecv: 3}, func(_ *Hop, m cell.RelayMsg) {
			m.Data = append([]byte(nil), m.Data...)
			got = append(got, m)
		})
		_ = late.Last().AcceptStream(9, heard{all: &here})
		linked, err := cell.ParseConfluxLink(got[0].Data)
		if err != nil || linked.LastSent != 3 || linked.LastRecv != 2 {
			t.Errorf("%+v, %v; %v", linked, err, at.Err())
		}
		// Two more from the relay on the first leg, one on the late one.
		xon(t, s.send, 2)
		prefer(s, 1)
		xon(t, s.send, 1)
		if want := []byte{0, 0, 0, 2}; len(got) != 2 || got[1].Cmd != cell.RelayConfluxSwitch || string(got[1].Data) != string(want) || len(there) != 5 || len(here) != 1 {
			t.Errorf("%v; %d messages on the first leg, %d on the late one", got[1:], len(there), len(here))
		}
		// One more from the client on the first leg, one on the late one.
		xon(t, first.Last().Send, 1)
		m := cell.ConfluxSwitch{Seq: 1}
		if err := late.Last().Send(cell.RelayConfluxSwitch, 0, m.Append(nil)); err != nil {
			t.Fatal(err)
		}
		xon(t, late.Last().Send, 1)
		if at.Err() != nil || s.delivered != 4 || s.waiting != 0 {
			t.Errorf("%d messages were taken, %d wait: %v", s.delivered, s.waiting, at.Err())
		}
		first.Close(cell.DestroyNone, nil)
		r.nothingLeft("late leg", first, late)
	})
}

// TestNoLegRevivesSet: a set that has ended takes no leg any more, not even while another
// circuit that asked to be one is still open; when that has gone too, the nonce is free.
func TestNoLegRevivesSet(t *testing.T) {
	onRig(t, func(r *rig) {
		var pending *Circuit // it has asked, and is between hold and add
		first := r.circuit(congested, nil)
		r.linkSet(first)
		set, err := r.server.sets.hold([32]byte{1}, time.Now)
		if err != nil || set != r.first().Last().Conflux() {
			t.Fatal(set, err)
		}
		pending = r.circuit(congested, nil)
		pendingAt := r.last()
		first.Close(cell.DestroyNone, nil)
		synctest.Wait()
		if err := set.add(&leg{hop: pendingAt.Last()}); !fault.Is(err, fault.Closed) || pendingAt.Last().Conflux() != nil {
			t.Errorf("a set that has ended took a leg: %v", err)
		}
		late, at := r.lateLeg(cell.ConfluxLink{}, nil)
		if at.Err() == nil || len(set.Legs()) != 1 {
			t.Errorf("a set that has ended took a late leg: %v; %d legs", at.Err(), len(set.Legs()))
		}
		r.server.sets.release([32]byte{1})
		pending.Close(cell.DestroyNone, nil)
		synctest.Wait()
		again, at := r.lateLeg(cell.ConfluxLink{}, nil)
		if s := at.Last().Conflux(); at.Err() != nil || s == nil || s == set {
			t.Errorf("the nonce is not free: %v", at.Err())
		}
		again.Close(cell.DestroyNone, nil)
		r.nothingLeft("revived", first, pending, late, again)
	})
}

// TestLinkedThatLies: a client gives up a set whose relay answers with anything but what
// was asked.
func TestLinkedThatLies(t *testing.T) {
	for name, change := range map[string]func(m *cell.ConfluxLink, body []byte) []byte{
		"another nonce":               func(m *cell.ConfluxLink, _ []byte) []byte { m.Nonce[0] ^= 1; return m.Append(nil) },
		"the nonce's last byte":       func(m *cell.ConfluxLink, _ []byte) []byte { m.Nonce[31] ^= 1; return m.Append(nil) },
		"more received than was sent": func(m *cell.ConfluxLink, _ []byte) []byte { m.LastRecv = 1; return m.Append(nil) },
		"something was sent":          func(m *cell.ConfluxLink, _ []byte) []byte { m.LastSent = 1; return m.Append(nil) },
		"another version":             func(_ *cell.ConfluxLink, b []byte) []byte { b[0] = 2; return b },
		"cut":                         func(_ *cell.ConfluxLink, b []byte) []byte { return b[:len(b)-1] },
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				r.say = func(h *Hop, m cell.RelayMsg) {
					if m.Cmd == cell.RelayConfluxLinkedAck {
						return // the first leg's
					}
					link, err := cell.ParseConfluxLink(m.Data)
					if m.Cmd != cell.RelayConfluxLink || err != nil {
						t.Error(m.Cmd, err)
					}
					body := link.Append(nil)
					if r.last() == h.c { // the second leg's
						body = change(&link, body)
					}
					if err := h.Send(cell.RelayConfluxLinked, 0, body); err != nil {
						t.Error(err)
					}
				}
				legs := r.legs()
				if _, err := LinkConflux(r.t.Context(), legs, cell.ConfluxHighThroughput); !fault.Is(err, fault.Protocol) {
					t.Error(err)
				}
				for i, c := range legs {
					if c.Err() == nil || c.Last().Conflux() != nil {
						t.Errorf("leg %d: %v", i, c.Err())
					}
				}
				r.nothingLeft(name, legs...)
			})
		})
	}
}

// TestLinkedUnasked: a LINKED to a client that did not ask, or that has its answer, ends the
// circuit.
func TestLinkedUnasked(t *testing.T) {
	for _, linked := range []bool{false, true} {
		onRig(t, func(r *rig) {
			var legs []*Circuit
			if linked {
				legs = r.pair().legs
			} else {
				legs = r.legs()
			}
			m := cell.ConfluxLink{}
			if err := r.last().Last().sendCell(cell.CmdRelay, cell.RelayConfluxLinked, 0, m.Append(nil)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if err := legs[1].Err(); !fault.Is(err, fault.Protocol) || linked && legs[0].Err() == nil {
				t.Errorf("linked: %v: %v, %v", linked, err, legs[0].Err())
			}
			legs[0].Close(cell.DestroyNone, nil)
			r.nothingLeft("unasked", legs...)
		})
	}
}

// legs makes two circuits of a client.
func (r *rig) legs() (out []*Circuit) {
	r.t.Helper()
	for range 2 {
		c, err := Create(r.t.Context(), r.env(), r.client, r.target, congested)
		if err != nil {
			r.t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

// TestNoStreamWhileLinking: no stream begins on a circuit that is being linked, and none on
// a later leg of a set. Its answers would come to the first leg.
func TestNoStreamWhileLinking(t *testing.T) {
	onRig(t, func(r *rig) {
		hold := make(chan struct{})
		r.say = func(h *Hop, m cell.RelayMsg) {
			if m.Cmd != cell.RelayConfluxLink {
				return // LINKED_ACK
			}
			<-hold
			if err := h.Send(cell.RelayConfluxLinked, 0, m.Data); err != nil {
				t.Error(err)
			}
		}
		legs := r.legs()
		got := make(chan *ConfluxSet)
		go func() {
			set, err := LinkConflux(r.t.Context(), legs, cell.ConfluxHighThroughput)
			if err != nil {
				t.Error(err)
			}
			got <- set
		}()
		open := func(c *Circuit) error {
			return c.Last().OpenStream(func(uint16) StreamReceiver { return deaf{} })
		}
		synctest.Wait()
		for i, c := range legs {
			if err := open(c); !fault.Is(err, fault.Local) {
				t.Errorf("leg %d, before LINKED: %v", i, err)
			}
		}
		close(hold)
		set := <-got
		if first, second := open(set.Legs()[0]), open(set.Legs()[1]); first != nil || !fault.Is(second, fault.Local) {
			t.Errorf("linked: %v, %v", first, second)
		}
		legs[0].Close(cell.DestroyNone, nil)
		r.nothingLeft("streams", legs...)
	})
}

// TestSwitchFails: a leg whose SWITCH cannot be sent is not changed to, and counts nothing.
func TestSwitchFails(t *testing.T) {
	onRig(t, func(r *rig) {
		p := r.pair()
		p.say(p.set, cell.RelayXon, "\x00\x00\x00\x00\x01")
		to := p.set.legs[1]
		if p.set.cur == to {
			to = p.set.legs[0]
		}
		from := p.set.cur
		for i, l := range p.set.legs {
			if l == to {
				prefer(p.set, i)
			}
		}
		// The leg is closed, and its close has not come to the set yet.
		to.hop.c.mu.Lock()
		to.hop.c.closed.Store(true)
		to.hop.c.cause = errors.New("test")
		to.hop.c.mu.Unlock()
		p.set.mu.Lock()
		p.set.takeTurnLocked()
		cur, sent := p.set.cur, to.sent
		p.set.mu.Unlock()
		if cur != from || sent != 0 {
			t.Errorf("changed: %v; %d messages are counted on the leg", cur != from, sent)
		}
		to.hop.c.mu.Lock()
		to.hop.c.closed.Store(false)
		to.hop.c.mu.Unlock()
		p.legs[0].Close(cell.DestroyNone, nil)
		r.nothingLeft("switch", p.legs...)
	})
}

// ahead links a set at the relay, with one leg whose messages come n numbers too early.
func (r *rig) ahead(n int) (slow, fast *Circuit) {
	r.t.Helper()
	slow, fast = r.circuit(congested, nil), r.circuit(congested, nil)
	r.linkSet(slow)
	r.linkSet(fast)
	m := cell.ConfluxSwitch{Seq: uint32(n)}
	if err := fast.Last().Send(cell.RelayConfluxSwitch, 0, m.Append(nil)); err != nil {
		r.t.Fatal(err)
	}
	return slow, fast
}

// TestEarlyMemory: messages that wait for earlier ones are on the account until they are
// delivered, or the set ends.
func TestEarlyMemory(t *testing.T) {
	for _, delivered := range []bool{true, false} {
		onRig(t, func(r *rig) {
			slow, fast := r.ahead(2)
			before := r.first().Account().Used()
			xon(t, fast.Last().Send, 5)
			if n := r.first().Account().Used() - before; n != 5*earlyCost {
				t.Errorf("%d bytes are counted for 5 messages", n)
			}
			if delivered {
				xon(t, slow.Last().Send, 2)
				if n := r.first().Account().Used() - before; n != 0 || r.first().Err() != nil {
					t.Errorf("%d bytes stay; %v", n, r.first().Err())
				}
			}
			slow.Close(cell.DestroyNone, nil)
			r.nothingLeft("early", slow, fast)
		})
	}
}

// TestEarlyBound: the messages that wait have a bound, and numbers that come twice are
// refused.
func TestEarlyBound(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(r *rig, slow, fast *Circuit)
		want string
	}{
		"too many": {func(r *rig, _, fast *Circuit) { xon(t, fast.Last().Send, maxEarly+1) }, "wait for one"},
		"a number that waits": {func(r *rig, slow, fast *Circuit) {
			xon(t, fast.Last().Send, 1)
			m := cell.ConfluxSwitch{Seq: 2}
			if err := slow.Last().Send(cell.RelayConfluxSwitch, 0, m.Append(nil)); err != nil {
				t.Fatal(err)
			}
			xon(t, slow.Last().Send, 1)
		}, "came twice"},
		"a number that was delivered": {func(r *rig, slow, fast *Circuit) {
			xon(t, slow.Last().Send, 3)
			xon(t, fast.Last().Send, 1)
		}, "came twice"},
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				slow, fast := r.ahead(2)
				c.do(r, slow, fast)
				if err := r.first().Err(); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v; want %q", err, c.want)
				}
				r.nothingLeft(name, slow, fast)
			})
		})
	}
}

// TestLegsToOneRelay: circuits to different relays make no set.
func TestLegsToOneRelay(t *testing.T) {
	onRig(t, func(r *rig) {
		legs := r.legs()
		s := newConfluxSet([32]byte{1}, time.Now)
		h := legs[1].Last()
		h.info.Target.RelayID = r.next.RelayID
		if err := s.join(&leg{hop: legs[0].Last()}); err != nil {
			t.Error(err)
		}
		if err := s.join(&leg{hop: h}); !fault.Is(err, fault.Local) || len(s.Legs()) != 1 {
			t.Errorf("%v; %d legs", err, len(s.Legs()))
		}
		for _, c := range legs {
			c.Close(cell.DestroyNone, nil)
		}
		r.nothingLeft("relays", legs...)
	})
}

// lastHeard counts how often a stream hears of its circuit's end.
type lastHeard struct {
	deaf
	n *int
}

func (e lastHeard) HandleCircuitClose(error) { *e.n++ }

// TestSetEndsOnce: however a set with streams ends, each of them hears of it once, and
// nothing is left.
func TestSetEndsOnce(t *testing.T) {
	over := fault.New(fault.Closed, "test")
	for name, end := range map[string]func(p *pair){
		"the first leg closes":  func(p *pair) { p.at.Legs()[0].Close(cell.DestroyNone, over) },
		"the second leg closes": func(p *pair) { p.at.Legs()[1].Close(cell.DestroyNone, over) },
		"both, twice": func(p *pair) {
			for range 2 {
				for _, c := range p.at.Legs() {
					c.Close(cell.DestroyNone, over)
				}
			}
		},
		"the relay's link goes":  func(p *pair) { p.home.Close(over) },
		"the client's link goes": func(p *pair) { p.client.Close(over) },
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				p := r.pair()
				n := 0
				var closed atomic.Int32
				if err := p.at.Legs()[0].Last().AcceptStream(p.id, lastHeard{n: &n}); err != nil {
					t.Fatal(err)
				}
				for _, c := range p.at.Legs() {
					c.OnClose(func(error) { closed.Add(1) })
				}
				end(p)
				synctest.Wait()
				if n != 1 || closed.Load() != 2 {
					t.Errorf("the stream heard it %d times, the two legs %d times", n, closed.Load())
				}
				r.nothingLeft(name, p.legs...)
			})
		})
	}
}

// TestFullQueueClosesOnce: a circuit over its bound of cells closes once, however many
// senders find out at the same moment, and while one of them holds what closing takes.
func TestFullQueueClosesOnce(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.circuit(congested, nil)
		at := r.last()
		closed := 0
		at.OnClose(func(error) { closed++ })
		q := NewQueueLimits()
		q.In.Store(-1)
		at.env.Queues = q
		for range 3 {
			if err := at.Last().Send(cell.RelayDrop, 0, nil); !fault.Is(err, fault.Closed) {
				t.Error(err)
			}
		}
		synctest.Wait()
		if err := at.Err(); closed != 1 || !fault.Is(err, fault.Resource) {
			t.Errorf("closed %d times: %v", closed, err)
		}
		r.nothingLeft("queue", c)
	})
}

// TestLinkGivenUpNeverBlocks: a context that ends leaves no circuit of a set that was not
// finished.
func TestLinkGivenUpLeavesNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		r.say = func(*Hop, cell.RelayMsg) {}
		legs := r.legs()
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
		defer cancel()
		if _, err := LinkConflux(ctx, legs, cell.ConfluxHighThroughput); !errors.Is(err, ErrLinkGivenUp) {
			t.Error(err)
		}
		r.nothingLeft("given up", legs...)
	})
}
