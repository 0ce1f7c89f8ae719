package circuit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/flow"
)

// block closes the window of the relay's i-th leg; open opens it again.
func (p *pair) block(i int) (open func()) {
	h := p.at.legs[i].hop
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	was, params := h.send, flow.DefaultParams()
	h.send = flow.NewVegasSender(&params, flow.PathExit, h.info.SendmeInc)
	for h.send.Available() > 0 {
		h.send.Sent(time.Now())
	}
	return func() {
		h.c.mu.Lock()
		defer h.c.mu.Unlock()
		h.send = was
		h.credited()
	}
}

// data has the relay send a cell, and returns on which leg it went; -1: on none.
func (p *pair) data(w *Waiter) int {
	p.t.Helper()
	var before []uint64
	for _, l := range p.at.legs {
		before = append(before, l.sent)
	}
	_, n, err := p.at.sendData(w, p.id, []byte("x"), 1)
	if err != nil {
		p.t.Fatal(err)
	}
	synctest.Wait()
	for i, l := range p.at.legs {
		if l.sent > before[i] && n == 1 {
			return i
		}
	}
	return -1
}

func (p *pair) end() {
	for _, l := range p.legs {
		l.Close(cell.DestroyNone, nil)
	}
}

// TestConfluxUX: each end says what it wants of the other's choice of legs, and an exit
// wants little latency, as C tor's do: then DATA waits for the fastest leg.
func TestConfluxUX(t *testing.T) {
	for ux, waits := range map[cell.ConfluxUX]bool{
		cell.ConfluxNoOpinion: false, cell.ConfluxMinLatency: true, cell.ConfluxLowMemLatency: true,
		cell.ConfluxHighThroughput: false, cell.ConfluxLowMemThroughput: true,
	} {
		onRig(t, func(r *rig) {
			p := r.pair()
			if p.set.ux != cell.ConfluxMinLatency || p.at.ux != cell.ConfluxHighThroughput {
				t.Errorf("the client obeys %d, and the relay %d", p.set.ux, p.at.ux)
			}
			p.at.ux = ux
			prefer(p.at, 1)
			open := p.block(1)
			w := NewWaiter()
			switch on := p.data(w); {
			case on == 1, waits && on == 0:
				t.Errorf("property %d: a cell on leg %d", ux, on)
			case !waits && on != 0:
				t.Errorf("property %d: the cell waits for the fastest leg", ux)
			}
			open()
			if waits && !woken(w) {
				t.Errorf("property %d: nobody is woken when the fastest leg is open", ux)
			}
			if on := p.data(w); on != 1 {
				t.Errorf("property %d: a cell on leg %d, not on the fastest one", ux, on)
			}
			p.end()
		})
	}
}

// TestConfluxUXLostLeg: when the leg that DATA waits for is lost, it waits no more.
func TestConfluxUXLostLeg(t *testing.T) {
	onRig(t, func(r *rig) {
		p := r.pair()
		p.at.ux = cell.ConfluxMinLatency
		prefer(p.at, 1)
		gate := make(chan struct{})
		p.legs[1].handle = func(*Hop, cell.RelayMsg, cell.Command) error { <-gate; return nil }
		fast := p.at.legs[1].hop
		if err := fast.Send(cell.RelayDrop, 0, nil); err != nil { // the client's reader stops
			t.Fatal(err)
		}
		for home := fast.c.home.Load(); home.Room() > 0; synctest.Wait() {
			if _, err := home.Enqueue(make([]byte, cell.Len)); err != nil {
				t.Fatal(err)
			}
		}
		w := NewWaiter()
		if on := p.data(w); on != -1 {
			t.Fatalf("a cell on leg %d", on)
		}
		time.Sleep(settled)
		p.at.drop(fast)
		if len(p.at.Legs()) != 1 || !woken(w) {
			t.Errorf("%d legs; nobody is woken", len(p.at.Legs()))
		}
		if on := p.data(w); on != 0 {
			t.Errorf("a cell on leg %d", on)
		}
		close(gate)
		p.end()
	})
}
