package hostile

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

var silent = slog.New(slog.DiscardHandler)

// honest is a client with a circuit that follows the protocol.
type honest struct {
	t        *testing.T
	channels *channel.Manager
	circ     *circuit.Circuit
	memory   *account.Memory // what relays make the client hold
}

// honestTime is how long an honest round trip may take, in virtual time. It is
// less than any timeout that a hostile peer can reach.
const honestTime = 5 * time.Second

func newHonest(t *testing.T, m *simnet.Network, path ...linkspec.Target) *honest {
	memory := account.New(0)
	cfg, link := &channel.Config{Log: silent, Now: now, Memory: memory}, &channel.LinkConfig{Memory: memory}
	h := &honest{t: t, memory: memory, channels: channel.NewManager(cfg, link, m.Dialer(honestAddress))}
	h.build(path...)
	return h
}

func (h *honest) build(path ...linkspec.Target) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ch, err := h.channels.Get(ctx, path[0])
	if err != nil {
		h.t.Fatal("the honest client: ", err)
	}
	r := &circuit.Route{Targets: path, Options: circuit.HopOptions{Congestion: true, CGO: true}}
	if h.circ, err = circuit.Build(ctx, &circuit.Env{Log: silent, Now: now}, ch, r); err != nil {
		h.t.Fatal("the honest client: ", err)
	}
}

// echo makes one round trip.
func (h *honest) echo(when string) {
	h.t.Helper()
	if err := echo(h.circ.Last()); err != nil {
		h.t.Errorf("the honest client is not served %s: %v; circuit: %v", when, err, h.circ.Err())
	}
}

// echo makes one round trip to the echo service of a hop.
func echo(to *circuit.Hop) error {
	ctx, cancel := context.WithTimeout(context.Background(), honestTime)
	defer cancel()
	s, err := stream.Dial(ctx, to, echoHost, 80)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.SetDeadline(now().Add(honestTime)); err != nil {
		return err
	}
	sent := bytes.Repeat([]byte("an honest round trip. "), 60) // of three cells
	if _, err := s.Write(sent); err != nil {
		return err
	}
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(s, got); err != nil {
		return err
	}
	if !bytes.Equal(got, sent) {
		return fault.New(fault.Protocol, "other bytes came back")
	}
	return nil
}

func (h *honest) close() {
	h.circ.Close(cell.DestroyNone, fault.New(fault.Closed, "the run is over"))
	h.channels.Close()
	later(0)
	if n := h.memory.Used(); n != 0 {
		h.t.Errorf("%d bytes are left on the client's account", n)
	}
}

// echoHost is the name of the service that sends back all bytes.
const echoHost = "echo"
