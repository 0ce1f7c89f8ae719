package hostile

import (
	"bytes"
	"context"
	"io"
	"net/netip"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/layer"
	"github.com/chivenet/chive/internal/stream"
)

// Operations of onion services and their clients on the client's circuits. The rules of
// the rendezvous (hsclient, hsservice) stand here in short: who asks, and what is done
// with what comes.

var machines = []circuit.PaddingMachine{circuit.PadRendezvous, circuit.PadIntroduction}

// virtualKeys is the key material of each virtual hop.
func virtualKeys() handshake.KeyStream {
	return handshake.KeyStream(bytes.NewReader(bytes.Repeat([]byte{5}, 1000)))
}

// asks are what a client or service asks its last relay.
var asks = []struct{ ask, answer cell.RelayCommand }{
	{cell.RelayEstablishRendezvous, cell.RelayRendezvousEstablished},
	{cell.RelayIntroduce1, cell.RelayIntroduceAck},
	{cell.RelayEstablishIntro, cell.RelayIntroEstablished},
}

// doAsk has the client ask the last relay of a circuit, and wait: B is what. With C & 1,
// a padding machine begins with the answer, and with C & 2 at once.
func (w *clientWorld) doAsk(i Insn) {
	q := pick(asks, i.B)
	w.deal(i.A, func(ctx context.Context, c *circuit.Circuit) {
		h := c.Last()
		want, err := h.Expect(q.answer)
		if err != nil {
			return
		}
		if h.Send(q.ask, 0, make([]byte, cell.CookieLen)) != nil {
			want.Cancel()
			return
		}
		if i.C&2 != 0 {
			c.Pad(pick(machines, i.B))
		}
		if _, _, err := want.Wait(ctx); err == nil && i.C&1 != 0 {
			c.Pad(pick(machines, i.B))
		}
	})
}

// doServe has the client take introductions, as a service, or no more: B.
func (w *clientWorld) doServe(i Insn) {
	w.deal(i.A, func(_ context.Context, c *circuit.Circuit) {
		if i.B&1 != 0 {
			c.Last().Handle(cell.RelayIntroduce2, nil)
			return
		}
		c.Last().Handle(cell.RelayIntroduce2, func(m cell.RelayMsg) error {
			_, err := cell.ParseIntroduce(m.Data)
			if i.B&2 != 0 {
				return nil // as a service does: a client wrote it
			}
			return err
		})
	})
}

// doMeet has the client wait for a service: RENDEZVOUS2 makes the virtual hop. B & 1
// gives it congestion control, and B & 2 then CGO.
func (w *clientWorld) doMeet(i Insn) {
	w.deal(i.A, func(_ context.Context, c *circuit.Circuit) {
		h := c.Last()
		h.Handle(cell.RelayRendezvous2, func(m cell.RelayMsg) error {
			h.Handle(m.Cmd, nil)
			_, err := c.AddVirtualHop(circuit.VirtualHop{Keys: virtualKeys(), SendmeInc: 31 * int(i.B&1), CGO: i.B&3 == 3})
			return err
		})
	})
}

// doVirtual makes the virtual hop at one end, or at both. B & 3 is 0 for a service and
// its hostile client, 1 for a client and its hostile service, 2 for the service alone,
// and 3 for the hostile end of a client. B & 4 gives the service congestion control, and
// B & 8 then CGO; B & 16 gives the hostile end CGO, whatever the other has. A selects the
// client's circuit, and the relay as in other operations.
func (w *clientWorld) doVirtual(i Insn) {
	kind := i.B & 3
	if e := w.endOf(i.A); e != nil && kind != 2 {
		e.meet(kind != 0, i.B&16 != 0)
	}
	if kind == 3 {
		return
	}
	w.deal(i.A, func(_ context.Context, c *circuit.Circuit) {
		v := circuit.VirtualHop{Keys: virtualKeys(), SendmeInc: 31 * int(i.B>>2&1), CGO: i.B&12 == 12}
		if kind != 1 {
			v.Service, v.Streams = true, echoStreams{w}
		}
		_, _ = c.AddVirtualHop(v)
	})
}

// meet adds the virtual hop at the hostile end.
func (e *end) meet(service, cgo bool) {
	newLayer := layer.NewTor1Rendezvous
	if cgo {
		newLayer = layer.NewCGORendezvous
	}
	l, err := newLayer(virtualKeys(), service)
	if err != nil {
		panic(err) // the keys are long enough
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.hops) == 1 {
		e.hops = append(e.hops, &hop{seal: l.Forward, open: l.Backward, format: l.Format, cgo: cgo, inc: 31})
	}
}

// echoStreams is a service that sends back what it gets.
type echoStreams struct{ w *clientWorld }

// HandleStream implements circuit.StreamHandler.
func (s echoStreams) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	if _, err := cell.ParseOnionBegin(m.Data); err != nil {
		return err
	}
	st, err := stream.Accept(h, m.Stream, "onion client")
	if err != nil {
		return err
	}
	s.w.under.Go(func() {
		defer st.Close()
		if st.Connected(netip.Addr{}, 0) != nil {
			return
		}
		_ = st.SetDeadline(now().Add(patience / 2))
		_, _ = io.Copy(st, st)
	})
	return nil
}
