package channel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// heard is what a link's other end has got, in its order.
type heard struct{ events []string }

// heardOf is one circuit's part.
type heardOf struct {
	*heard
	id uint32
}

func (h heardOf) HandleCells(b []byte) {
	for range len(b) / cell.Len {
		h.events = append(h.events, fmt.Sprintf("cell %x", h.id))
	}
}
func (heardOf) HandleBatchEnd()                    {}
func (heardOf) HandleControl(cell.Command, []byte) {}
func (heardOf) HandleWritable()                    {}
func (h heardOf) HandleDestroy(cell.DestroyReason, error) {
	h.events = append(h.events, fmt.Sprintf("end %x", h.id))
}

// heldPair runs f with a client's link that looks like C tor's, with its circuits, and with what the relay gets from then on. A second
// has passed since the last cell.
func heldPair(t *testing.T, circuits int, f func(a *Channel, all []*CircuitEnd, got *heard)) {
	commonPair(t, false, func(a *Channel, _ *onLine, _ chan *sink, relay func() *Channel) {
		got := new(heard)
		relay().cfg.Accept = func(c *CircuitEnd, _ cell.Command, _ []byte) { c.SetReceiver(heardOf{got, c.ID()}) }
		all := make([]*CircuitEnd, circuits)
		for i := range all {
			c, err := a.Open(newSink(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.SendControl(cell.CmdCreate2, nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			all[i] = c
		}
		time.Sleep(time.Second)
		f(a, all, got)
	})
}

// TestEndsTogether: of circuits that end at once, one DESTROY goes out, and the others with a circuit's next cell, however late
// that is. One more circuit that ends lets out the oldest.
func TestEndsTogether(t *testing.T) {
	heldPair(t, 8, func(a *Channel, all []*CircuitEnd, got *heard) {
		look := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(got.events, want) {
				t.Errorf("%s: %v came, not %v", when, got.events, want)
			}
			got.events = nil
		}
		event := func(what string, i int) string { return fmt.Sprintf("%s %x", what, all[i].ID()) }
		for _, c := range all[:3] {
			c.Destroy(cell.DestroyNone)
		}
		look("at once", event("end", 0))
		time.Sleep(time.Hour)
		look("an hour later")
		all[3].Destroy(cell.DestroyNone)
		look("one more end", event("end", 1))
		if a.mu.Lock(); !a.ends.hasLocked(all[2].ID()) || a.ends.hasLocked(all[1].ID()) {
			t.Error("the identifiers that may not be used")
		}
		a.mu.Unlock()
		sendOne(all[4])
		look("a cell", event("cell", 4), event("end", 2), event("end", 3))
		// The scheduler of C tor may still run for that cell.
		all[5].Destroy(cell.DestroyNone)
		all[6].Destroy(cell.DestroyNone)
		look("ends right after a cell", event("end", 5), event("end", 6))
		time.Sleep(time.Second)
		all[4].Destroy(cell.DestroyNone)
		look("the last end but one", event("end", 4))
		// Many cells, and an end among them.
		b := numbered(0, 40)
		for i := 0; i < len(b); i += cell.Len {
			cell.PutHeader(b[i:], all[7].ID(), cell.CmdRelay)
		}
		if err := all[7].Send(b); err != nil {
			t.Fatal(err)
		}
		look("cells", slices.Repeat([]string{event("cell", 7)}, 40)...)
	})
}

// TestEndsOfClients: clients' links that look like C tor's keep DESTROY cells back, and no others.
func TestEndsOfClients(t *testing.T) {
	commonPair(t, false, func(a *Channel, _ *onLine, _ chan *sink, relay func() *Channel) {
		if a.ends == nil || relay().ends != nil {
			t.Errorf("the client's end: %v, the relay's: %v", a.ends, relay().ends)
		}
	})
	pair(t, Config{}, Config{}, func(a, b *Channel, _ chan *sink) {
		if a.ends != nil || b.ends != nil {
			t.Errorf("a link that does not look like C tor's: %v, %v", a.ends, b.ends)
		}
	})
}

// TestEndsWithoutPadding: a link that keeps DESTROY cells back is not padded, but kept alive, and is padded when they are out.
func TestEndsWithoutPadding(t *testing.T) {
	heldPair(t, 4, func(a *Channel, all []*CircuitEnd, _ *heard) {
		a.cfg.Padding = NewPadding(DefaultPadding(PadFull))
		a.NoteMultiHop()
		sent := func(d time.Duration, does func()) uint64 {
			before := a.out.Load()
			does()
			time.Sleep(d)
			synctest.Wait()
			return (a.out.Load() - before) / cell.Len
		}
		nothing := func() {}
		if n := sent(5*time.Minute, nothing); n < 20 {
			t.Errorf("%d padding cells in five minutes", n)
		}
		end := func() {
			for _, c := range all[:3] {
				c.Destroy(cell.DestroyNone)
			}
		}
		if n := sent(5*time.Minute-10*time.Second, end); n != 1 {
			t.Errorf("%d cells, not one DESTROY", n)
		}
		if n := sent(20*time.Second, nothing); n != 1 {
			t.Errorf("%d cells, not one that keeps the link alive", n)
		}
		sendOne(all[3])
		if n := sent(5*time.Minute, nothing); n < 20 {
			t.Errorf("%d padding cells in five minutes after a cell", n)
		}
	})
}

// TestEndsAsCtor compares with C tor's two queues: the connection's, which the first end of a pass finds empty, and the DESTROY
// cells that wait.
func TestEndsAsCtor(t *testing.T) {
	const circuits = 80
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		heldPair(t, circuits, func(_ *Channel, open []*CircuitEnd, got *heard) {
			var want []string
			var queue []uint32         // the DESTROYs that wait
			runs, full := false, false // the scheduler runs in this pass, or a DESTROY is in the connection's buffer
			flush := func() {
				for _, id := range queue {
					want = append(want, fmt.Sprintf("end %x", id))
				}
				queue = nil
			}
			for len(open) > 4 {
				switch r.IntN(4) {
				case 0, 1:
					for range 1 + r.IntN(3) {
						queue = append(queue, open[0].ID())
						open[0].Destroy(cell.DestroyNone)
						open = open[1:]
						switch {
						case runs:
							flush()
						case !full:
							want = append(want, fmt.Sprintf("end %x", queue[0]))
							queue, full = queue[1:], true
						}
						synctest.Wait()
					}
				case 2:
					sendOne(open[0])
					synctest.Wait()
					want = append(want, fmt.Sprintf("cell %x", open[0].ID()))
					flush() // what waits came after a DESTROY, so the cell is before it
					runs, full = true, false
				case 3:
					time.Sleep(time.Second)
					runs, full = false, false
				}
			}
			synctest.Wait()
			if !slices.Equal(got.events, want) {
				t.Errorf("seed %d: %v came, not %v", seed, got.events, want)
			}
		})
	}
}
