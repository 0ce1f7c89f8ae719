package hsservice

import (
	"context"
	"errors"
	"io"
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
	copying chan *Conn
}

func (h stalled) HandleStream(hop *circuit.Hop, m cell.RelayMsg) error {
	st, err := stream.Accept(hop, m.Stream, "onion client")
	if err != nil {
		return err
	}
	r := &clientCircuit{}
	if !h.s.addClient(hop.Circuit(), r) {
		h.t.Error("the service is closed")
	}
	h.s.removeClientAtEnd(hop.Circuit())
	c := h.s.newConn(st, r, 80)
	if err := c.Connected(netip.Addr{}, 0); err != nil {
		return err
	}
	h.s.joinTarget(c, h.target)
	h.copying <- c
	return nil
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

// stalledStream opens a stream to a target.
func stalledStream(t *testing.T, h stalled) (*circuit.Circuit, *stream.Stream) {
	t.Helper()
	r := simnet.New(t, simnet.Options{Streams: h, Memory: account.New(0)})
	m := channel.NewManager(&channel.Config{Now: time.Now}, &channel.LinkConfig{}, simnet.Dial)
	t.Cleanup(m.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
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
	return c, st
}

// TestStalledTarget: a target that reads nothing and sends nothing does not keep a
// service from closing.
func TestStalledTarget(t *testing.T) {
	s, _ := hosted(t, nowhere{})
	near, far := net.Pipe() // far is the target
	defer far.Close()
	h := stalled{t, s, writes{near, make(chan struct{}, 10)}, make(chan *Conn, 1)}
	_, st := stalledStream(t, h)
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
	case <-time.After(time.Minute):
		t.Error("the service does not close")
		far.Close()
		<-closed
	}
}

// deadline is a connection that tells until when it may be written to.
type deadline struct {
	writes
	set chan time.Time
}

func (d deadline) SetWriteDeadline(at time.Time) error {
	d.set <- at
	return d.writes.SetWriteDeadline(time.Now())
}

// TestClientGone: a target has some time to read what a client sent before its circuit
// closed, and no more.
func TestClientGone(t *testing.T) {
	s, _ := hosted(t, nowhere{})
	near, far := net.Pipe() // far is the target
	defer far.Close()
	target := deadline{writes{near, make(chan struct{}, 10)}, make(chan time.Time, 1)}
	h := stalled{t, s, target, make(chan *Conn, 1)}
	c, st := stalledStream(t, h)
	conn := <-h.copying
	if _, err := st.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	<-target.began
	c.Close(cell.DestroyNone, errors.New("the client is gone"))
	if at := <-target.set; time.Until(at) <= 0 || time.Until(at) > flushTime {
		t.Errorf("%v", time.Until(at))
	}
	<-conn.Hop().Circuit().Done()
	if _, err := far.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection stays: %v", err)
	}
	s.Close()
	if n := s.conns.Load(); n != 0 {
		t.Errorf("%d connections are counted", n)
	}
}
