package circuit

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// heard takes the messages of a stream.
type heard struct {
	deaf
	all *[]cell.RelayCommand
}

func (s heard) HandleMessage(m cell.RelayMsg, _ time.Time) error {
	*s.all = append(*s.all, m.Cmd)
	return nil
}

// pair is a set of two legs, at both ends, without streams.
type pair struct {
	*rig
	legs []*Circuit  // the client's
	set  *ConfluxSet // at the client
	at   *ConfluxSet // at the relay
	id   uint16      // of a stream
	got  []cell.RelayCommand
}

func (r *rig) pair() *pair {
	r.t.Helper()
	p := &pair{rig: r}
	for range 2 {
		c, err := Create(r.t.Context(), r.env(), r.client, r.target, congested)
		if err != nil {
			r.t.Fatal(err)
		}
		p.legs = append(p.legs, c)
	}
	set, err := LinkConflux(r.t.Context(), p.legs, cell.ConfluxHighThroughput)
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	p.set, p.at = set, r.last().Last().Conflux()
	if err := p.legs[0].Last().OpenStream(func(id uint16) StreamReceiver { p.id = id; return heard{all: &p.got} }); err != nil {
		r.t.Fatal(err)
	}
	return p
}

// prefer makes an end of the set send on a leg.
func prefer(s *ConfluxSet, i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for j, l := range s.legs {
		l.rtt = time.Second
		if j == i {
			l.rtt = time.Millisecond
		}
	}
}

// say sends a numbered message from an end of the set.
func (p *pair) say(s *ConfluxSet, cmd cell.RelayCommand, body string) {
	p.t.Helper()
	if err := s.send(cmd, p.id, []byte(body)); err != nil {
		p.t.Error(err)
	}
	synctest.Wait()
}

// lose ends a leg between the two ends, which both hear of it.
func (p *pair) lose(i int) {
	c := p.legs[i]
	c.home.Load().Destroy(cell.DestroyNone) // the relay hears it
	homeSide{c}.HandleDestroy(cell.DestroyChannelClosed, fault.New(fault.Network, "test"))
	synctest.Wait()
}

// TestSetOutlivesLeg: a set goes on without a leg that took no message with it, and
// with any other leg it ends at both ends.
func TestSetOutlivesLeg(t *testing.T) {
	used := func(p *pair) { // the second leg, by the client
		prefer(p.set, 1)
		p.say(p.set, cell.RelayXon, "\x00\x00\x00\x00\x01")
		prefer(p.set, 0)
		p.say(p.set, cell.RelayXon, "\x00\x00\x00\x00\x01")
	}
	for name, c := range map[string]struct {
		do    func(p *pair)
		leg   int
		lives bool
	}{
		"no leg was used": {func(*pair) {}, 1, true},
		"the first leg":   {func(*pair) {}, 0, false},
		"the first leg, not in use": {func(p *pair) {
			prefer(p.set, 1)
			p.say(p.set, cell.RelayXon, "\x00\x00\x00\x00\x01")
			time.Sleep(settled)
		}, 0, false},
		"used long ago": {func(p *pair) { used(p); time.Sleep(settled) }, 1, true},
		"used just now": {used, 1, false},
		"this end sends on it": {func(p *pair) {
			prefer(p.set, 1)
			p.say(p.set, cell.RelayXon, "\x00\x00\x00\x00\x01")
			time.Sleep(settled)
		}, 1, false},
		"the other end sends on it": {func(p *pair) {
			prefer(p.at, 1)
			p.say(p.at, cell.RelayXon, "\x00\x00\x00\x00\x01")
			time.Sleep(settled)
		}, 1, false},
		"not acknowledged": {func(p *pair) {
			p.legs[1].mu.Lock()
			for range p.legs[1].Last().info.SendmeInc {
				p.legs[1].Last().send.Sent(time.Now())
			}
			p.legs[1].mu.Unlock()
		}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				p := r.pair()
				for _, l := range r.accepted { // it takes the stream's messages
					if l.Last() == p.at.legs[0].hop {
						_ = l.Last().AcceptStream(p.id, deaf{})
					}
				}
				c.do(p)
				p.set.drop(p.legs[c.leg].Last()) // without the other end's help
				if dropped := len(p.set.Legs()) == 1; dropped != c.lives {
					t.Errorf("dropped: %v", dropped)
				}
				p.lose(c.leg)
				for _, l := range append(r.accepted, p.legs...) {
					lost := l == p.legs[c.leg] || l == r.accepted[c.leg]
					if open := l.Err() == nil; open != (c.lives && !lost) {
						t.Errorf("open: %v; %v", open, l.Err())
					}
				}
				if c.lives {
					p.say(p.set, cell.RelayBegin, "x:1\x00") // the relay refuses it
					if len(p.got) != 1 || p.got[0] != cell.RelayEnd || len(p.set.Legs()) != 1 {
						t.Errorf("%v; %d legs; %v", p.got, len(p.set.Legs()), p.legs[0].Err())
					}
				}
				p.legs[0].Close(cell.DestroyNone, nil)
				r.nothingLeft(name, p.legs...)
			})
		})
	}
}

// TestExitOutlivesFirstLeg: a client that replaces the first leg before the set has had a stream keeps the others, whose
// first one has the streams then. After a stream the set ends with it.
func TestExitOutlivesFirstLeg(t *testing.T) {
	for _, used := range []bool{false, true} {
		onRig(t, func(r *rig) {
			first, second := r.circuit(congested, nil), r.circuit(congested, nil)
			r.linkSet(first)
			r.linkSet(second)
			set := r.last().Last().Conflux()
			if used {
				xon(t, second.Last().Send, 1)
			}
			first.home.Load().Destroy(cell.DestroyNone)
			synctest.Wait()
			if got := r.last().Err() == nil; got == used {
				t.Fatalf("after a message: %v: the other leg lives: %v", used, got)
			}
			if !used {
				var got []cell.RelayCommand
				_ = second.Last().AcceptStream(7, heard{all: &got})
				third := r.circuit(congested, nil)
				r.linkSet(third)
				begin := cell.Begin{Host: "name.test", Port: 80}
				if err := second.Last().Send(cell.RelayBegin, 7, begin.Append(nil)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if len(set.Legs()) != 2 || len(got) != 1 || got[0] != cell.RelayEnd { // the relay refuses it
					t.Errorf("%d legs, %v", len(set.Legs()), got)
				}
				third.Close(cell.DestroyNone, nil)
			}
			second.Close(cell.DestroyNone, nil)
			first.Close(cell.DestroyNone, nil)
			r.nothingLeft("first leg", first, second)
		})
	}
}

// TestGapOfLostLeg: a set that goes on without a leg ends when a message is missing that
// only this leg can have taken with it. Else its streams would wait for ever.
func TestGapOfLostLeg(t *testing.T) {
	for _, gapFirst := range []bool{true, false} {
		onRig(t, func(r *rig) {
			first, second := r.circuit(congested, nil), r.circuit(congested, nil)
			r.linkSet(first)
			r.linkSet(second)
			gap := func() {
				m := cell.ConfluxSwitch{Seq: 3}
				if err := first.Last().Send(cell.RelayConfluxSwitch, 0, m.Append(nil)); err != nil {
					t.Error(err)
				}
				if err := first.Last().Send(cell.RelayData, 1, []byte("late")); err != nil {
					t.Error(err)
				}
				synctest.Wait()
			}
			lose := func() { second.home.Load().Destroy(cell.DestroyNone); synctest.Wait() }
			steps := []func(){lose, gap}
			if gapFirst {
				steps = []func(){gap, lose}
			}
			at := r.first()
			steps[0]()
			if at.Err() != nil {
				t.Errorf("gap first: %v: the set ends early: %v", gapFirst, at.Err())
			}
			steps[1]()
			if at.Err() == nil || !gapFirst && !errors.Is(at.Err(), errLost) {
				t.Errorf("gap first: %v: %v", gapFirst, at.Err())
			}
			second.Close(cell.DestroyNone, nil)
			r.nothingLeft("gap", first, second)
		})
	}
}
