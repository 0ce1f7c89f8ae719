package channel

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/panics/panicstest"
)

// mistaken is a receiver that panics in one of its methods.
type mistaken struct {
	*sink
	in string
}

func (m *mistaken) perhaps(in string) {
	if m.in == in {
		panic("a mistake in " + in)
	}
}

func (m *mistaken) HandleCells(b []byte) { m.perhaps("HandleCells"); m.sink.HandleCells(b) }

func (m *mistaken) HandleBatchEnd() { m.perhaps("HandleBatchEnd") }

func (m *mistaken) HandleControl(cmd cell.Command, b []byte) { m.perhaps("HandleControl") }

func (m *mistaken) HandleWritable() { m.perhaps("HandleWritable") }

// TestPanicEndsACircuit: when a circuit's code panics on the reader, that circuit
// is closed at both ends, and the others on the link get all their cells, those
// that came in the same record too.
func TestPanicEndsACircuit(t *testing.T) {
	for _, in := range []string{"HandleCells", "HandleBatchEnd", "HandleControl"} {
		t.Run(in, func(t *testing.T) {
			panicstest.Expect(t, 1)
			pair(t, Config{}, Config{}, func(a, b *Channel, accepted chan *sink) {
				bad, good := &mistaken{newSink(), in}, newSink()
				c1, x := open(t, a, bad, accepted)
				c2, _ := open(t, a, good, accepted)
				// All in one batch of b's writer.
				b.mu.Lock()
				b.turn = turnCaller
				b.mu.Unlock()
				if in == "HandleControl" {
					if err := b.lookup(c1.ID()).SendControl(cell.CmdCreated2, nil); err != nil {
						t.Fatal(err)
					}
				}
				for range 3 {
					for _, c := range []*CircuitEnd{c1, c2} {
						cells := numbered(0, 2)
						for i := 0; i < len(cells); i += cell.Len {
							cell.PutHeader(cells[i:], 0, cell.CmdRelay)
						}
						if err := b.lookup(c.ID()).Send(cells); err != nil {
							t.Fatal(err)
						}
					}
				}
				b.handOver()
				<-bad.ended
				if bad.reason != cell.DestroyInternal || !fault.Is(bad.err, fault.Local) {
					t.Errorf("the circuit ended with %v, %v", bad.reason, bad.err)
				}
				<-x.ended
				if x.reason != cell.DestroyInternal {
					t.Errorf("the peer heard %v", x.reason)
				}
				synctest.Wait()
				if n := good.count(); n != 6 {
					t.Errorf("the other circuit got %d of 6 cells", n)
				}
				if a.Err() != nil || b.Err() != nil {
					t.Errorf("the link is closed: %v, %v", a.Err(), b.Err())
				}
				if n, _ := a.Circuits(); n != 1 {
					t.Errorf("%d circuits", n)
				}
			})
		})
	}
}

func open(t *testing.T, ch *Channel, r Receiver, accepted chan *sink) (*CircuitEnd, *sink) {
	t.Helper()
	c, err := ch.Open(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SendControl(cell.CmdCreate2, nil); err != nil {
		t.Fatal(err)
	}
	return c, <-accepted
}

// TestPanicEndsALink: what the writer took of the queues is lost when it panics,
// and every circuit's cryptography with it: the link is closed, and no other.
func TestPanicEndsALink(t *testing.T) {
	panicstest.Expect(t, 1)
	pair(t, Config{}, Config{}, func(a, b *Channel, accepted chan *sink) {
		bad, good := &mistaken{newSink(), "HandleWritable"}, newSink()
		c, _ := open(t, a, bad, accepted)
		open(t, a, good, accepted)
		cells := numbered(0, queueBound)
		for i := 0; i < len(cells); i += cell.Len {
			cell.PutHeader(cells[i:], 0, cell.CmdRelay)
		}
		synctest.Wait() // the writer has given up its turn
		a.mu.Lock()
		a.turn = turnCaller
		a.mu.Unlock()
		if err := c.Send(cells); err != nil {
			t.Fatal(err)
		}
		if c.Room() != 0 {
			t.Fatal("there is room")
		}
		a.handOver()
		for _, s := range []*sink{bad.sink, good} {
			<-s.ended
			if !fault.Is(s.err, fault.Local) {
				t.Errorf("a circuit ended with %v", s.err)
			}
		}
		<-a.Done()
		if !fault.Is(a.Err(), fault.Local) {
			t.Errorf("the link ended with %v", a.Err())
		}
	})
}

// TestPanicOverALinkHandshake: it fails like any other.
func TestPanicOverALinkHandshake(t *testing.T) {
	panicstest.Expect(t, 1)
	x, y := net.Pipe()
	_, _, lerr, rerr := shake(t, x, y, ident.RelayID{}, &LinkConfig{AnyPeer: true}, &LinkConfig{Now: func() time.Time { panic("no clock") }, Identity: keys(t)})
	if lerr == nil || !fault.Is(rerr, fault.Local) {
		t.Fatalf("%v, %v", lerr, rerr)
	}
}
