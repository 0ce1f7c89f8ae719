package circuit

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account/accounttest"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
)

// TestCosts: what a circuit's account counts for objects is what they take.
func TestCosts(t *testing.T) {
	skin := make([]byte, 84)
	accounttest.True(t,
		accounttest.Case{Name: "closed stream", Cost: closedCost, N: 200 * 600, Make: func(n int) any {
			var hops []*Hop
			for range n / 600 {
				h := &Hop{c: new(Circuit)}
				for id := range 600 {
					h.noteRefused(uint16(id + 1))
				}
				hops = append(hops, h)
			}
			return hops
		}},
		accounttest.Case{Name: "streams that closed before", Cost: pastCost, N: 200, Make: func(n int) any {
			all := make([]pastStreams, n)
			for i := range all {
				all[i].add(&closedStream{id: 7, allowed: 1})
			}
			return all
		}},
		accounttest.Case{Name: "onionskin that waits", Cost: onionJobCost + len(skin), N: 6000, Make: func(n int) any {
			q, from := newOnionQueue(1), new(channel.Channel)
			for range n {
				if dropped, _ := q.push(from, onionJob{skin: append([]byte(nil), skin...)}, time.Hour); dropped != nil {
					panic("an onionskin was dropped")
				}
			}
			return q
		}},
		accounttest.Case{Name: "introduction point", Cost: hsPointCost, N: 6000, Make: func(n int) any {
			points := &hsPoints{intro: map[[32]byte]*introPoint{}}
			circs := make([]Circuit, n)
			for i := range n {
				var key [32]byte
				binary.BigEndian.PutUint64(key[:], uint64(i))
				p := &introPoint{}
				points.addIntro(key, p)
				circs[i].onEnd = append(circs[i].onEnd, func(error) { points.dropIntro(key, p) })
			}
			ends := make([][]func(error), n) // without the circuits, which count for themselves
			for i := range circs {
				ends[i] = circs[i].onEnd
			}
			return []any{points, ends}
		}},
		accounttest.Case{Name: "early message of a conflux set", Cost: earlyCost, N: 3000, Make: func(n int) any {
			s := &ConfluxSet{}
			l, h := &leg{recv: 1, hop: &Hop{c: new(Circuit)}}, &Hop{c: new(Circuit)}
			s.legs = []*leg{l}
			for range n {
				if err := s.orderLocked(l, h, cell.RelayMsg{Cmd: cell.RelayData, Stream: 1, Data: make([]byte, cell.PayloadLen-20)}); err != nil {
					panic(err)
				}
			}
			return s.early
		}},
		accounttest.Case{Name: "padding of a circuit", Cost: paddingCost, N: 3000, Make: func(n int) any {
			c := &Circuit{env: &Env{}}
			h := &Hop{c: c}
			pads := make([]*padder, n)
			for i := range pads {
				c.pads = nil
				pads[i] = c.padder(h)
				count, _ := pads[i].begin(PadIntroduction, &paddingEnd{least: 7, most: 9, soon: time.Hour, late: 2 * time.Hour})
				pads[i].wait(count)
			}
			return pads
		}},
	)
}
