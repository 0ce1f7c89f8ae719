package stream_test

import (
	"io"
	"net/netip"
	"runtime"
	"testing"
	"weak"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// closing is an exit whose circuit closes between a stream's BEGIN and CONNECTED.
type closing struct {
	t    *testing.T
	left chan int64 // what the stream holds afterwards
}

func (c closing) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	s, err := stream.Accept(h, m.Stream, "too late")
	if err != nil {
		return err
	}
	if s.Account().Used() == 0 {
		c.t.Error("a stream counts nothing")
	}
	h.Circuit().Close(cell.DestroyFinished, fault.New(fault.Closed, "closed by the test"))
	if err := s.Connected(netip.Addr{}, 0); !fault.Is(err, fault.Closed) {
		c.t.Error(err)
	}
	c.left <- s.Account().Used()
	return nil
}

// TestConnectedTooLate: a stream whose circuit has closed before it could be
// opened holds nothing afterwards, though nobody closes it.
func TestConnectedTooLate(t *testing.T) {
	exit := closing{t, make(chan int64, 1)}
	r := simnet.New(t, simnet.Options{Streams: exit, Memory: account.New(0)})
	c := r.Circuit(t)
	if _, err := stream.Dial(t.Context(), c.Last(), "x", 80); err == nil {
		t.Error("the stream is open")
	}
	if n := <-exit.left; n != 0 {
		t.Errorf("the stream holds %d bytes", n)
	}
}

// accepting is an exit that accepts streams and does not answer.
type accepting chan *stream.Stream

func (a accepting) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	s, err := stream.Accept(h, m.Stream, "x")
	if err != nil {
		return err
	}
	s.SetHalfClose(true)
	a <- s
	return nil
}

// TestRejectHalfClosed: a stream that the client half-closed before it is refused leaves
// nothing behind: a client could open and half-close as many as it likes.
func TestRejectHalfClosed(t *testing.T) {
	exit := make(accepting, 1)
	r := simnet.New(t, simnet.Options{Proto: halves, Streams: exit})
	c := build(t, client(t), kinds["vegas cgo"], r)
	s := halfClient(t, c, cell.BeginHalfClose)
	halfClosed(t, s)
	left := reject(t, <-exit)
	<-s.end
	for range 1000 {
		runtime.GC()
		if left.Value() == nil {
			return
		}
	}
	t.Error("the stream is still there")
}

// reject refuses a stream when its client has half-closed it.
func reject(t *testing.T, s *stream.Stream) weak.Pointer[stream.Stream] {
	t.Helper()
	if b, err := io.ReadAll(s); len(b) != 0 || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if err := s.Reject(cell.EndConnectRefused, netip.Addr{}, 0); err != nil {
		t.Error(err)
	}
	return weak.Make(s)
}
