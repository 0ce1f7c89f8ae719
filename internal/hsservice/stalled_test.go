package hsservice

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// stalled gives the streams of a circuit to a target that reads nothing.
type stalled struct {
	t       *testing.T
	s       *Service
	target  net.Conn
	copying chan *rendezvous
}

func (h stalled) HandleStream(hop *circuit.Hop, m cell.RelayMsg) error {
	st, err := stream.Accept(hop, m.Stream, "onion client")
	if err != nil {
		return err
	}
	r := &rendezvous{hop: hop}
	if !h.s.joined(hop.Circuit(), r) {
		h.t.Error("the service is closed")
	}
	h.s.follow(hop.Circuit(), r)
	c := h.s.newConn(st, r, 80)
	h.s.wg.Go(func() { h.s.copy(c, h.target) })
	h.copying <- r
	return c.Connected(netip.Addr{}, 0)
}

// writes is a connection that tells of a Write, which takes as long as it likes.
type writes struct {
	net.Conn
	began chan struct{}
}

func (w writes) Write(b []byte) (int, error) {
	w.began <- struct{}{}
	return w.Conn.Write(b)
}

// TestStalledTarget: a target that reads nothing and sends nothing does not keep a
// service from closing.
func TestStalledTarget(t *testing.T) {
	s, _ := hosted(t, nowhere{})
	near, far := net.Pipe() // far is the target
	defer far.Close()
	h := stalled{t, s, writes{near, make(chan struct{}, 10)}, make(chan *rendezvous, 1)}
	r := simnet.New(t, simnet.Options{Streams: h, Memory: account.New(0)})
	m := channel.NewManager(&channel.Config{Now: time.Now}, &channel.LinkConfig{}, simnet.Dial)
	t.Cleanup(m.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ch, err := m.Get(ctx, r.Target)
	if err != nil {
		t.Fatal(err)
	}
	c, err := circuit.Create(ctx, &circuit.Env{Now: time.Now}, ch, r.Target, circuit.HopOptions{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := stream.Dial(ctx, c.Last(), "x", 80)
	if err != nil {
		t.Fatal(err)
	}
	<-h.copying
	if _, err := st.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	<-h.target.(writes).began
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.Close()
	}()
	select {
	case <-closed:
	case <-ctx.Done():
		t.Error("the service does not close")
		far.Close()
		<-closed
	}
}

// deadline is a connection that keeps the time until which it may be written to.
type deadline struct {
	net.Conn
	at time.Time
}

func (d *deadline) SetWriteDeadline(at time.Time) error { d.at = at; return nil }

// TestClientGone: a target has some time to read what a client sent before its circuit
// closed, and no more.
func TestClientGone(t *testing.T) {
	s, _ := hosted(t, nowhere{})
	c, r := new(circuit.Circuit), new(rendezvous)
	before, left, after := new(deadline), new(deadline), new(deadline)
	s.joinTarget(r, before)
	s.joinTarget(r, left)
	s.partTarget(r, left)
	s.parted(c, r)
	s.joinTarget(r, after)
	if before.at.IsZero() || after.at.IsZero() || time.Until(after.at) > flushTime {
		t.Errorf("%v %v", before.at, after.at)
	}
	if !left.at.IsZero() {
		t.Error("a connection that has ended is kept")
	}
}
