package stream_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
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
	if _, err := stream.Dial(ctx, c.Last(), "x", 80); err == nil {
		t.Error("the stream is open")
	}
	if n := <-exit.left; n != 0 {
		t.Errorf("the stream holds %d bytes", n)
	}
}
