package circuit_test

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

var env = &circuit.Env{Log: slog.New(slog.DiscardHandler), Now: time.Now}

func newClient(t testing.TB) *channel.Manager {
	m := channel.NewManager(&channel.Config{Log: env.Log, Now: time.Now}, &channel.LinkConfig{}, simnet.Dial)
	t.Cleanup(m.Close)
	return m
}

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func build(t testing.TB, m *channel.Manager, o circuit.HopOptions, relays ...*simnet.Relay) *circuit.Circuit {
	t.Helper()
	ctx := deadline(t)
	ch, err := m.Get(ctx, relays[0].Target)
	if err != nil {
		t.Fatal(err)
	}
	c, err := circuit.Create(ctx, env, ch, relays[0].Target, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range relays[1:] {
		if err := c.Extend(ctx, r.Target, o); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestHostileRelay: whatever an exit sends against the protocol costs that
// circuit, with an error that names the violation, and no other circuit.
func TestHostileRelay(t *testing.T) {
	send := func(cmd cell.RelayCommand, id uint16, body string) func(*stream.Stream) {
		return func(s *stream.Stream) { _ = s.Hop().Send(cmd, id, []byte(body)) }
	}
	own := func(cmd cell.RelayCommand, body string) func(*stream.Stream) {
		return func(s *stream.Stream) { _ = s.Hop().Send(cmd, s.ID(), []byte(body)) }
	}
	for name, c := range map[string]struct {
		do   func(*stream.Stream)
		want string
		o    circuit.HopOptions
	}{
		"SENDME nobody expects": {do: send(cell.RelaySendme, 0, "\x01\x00\x14"+strings.Repeat("x", 20)), want: "SENDME"},
		"SENDME version 0":      {do: send(cell.RelaySendme, 0, ""), want: "version"},
		"stream SENDME":         {do: own(cell.RelaySendme, ""), want: "SENDME"},
		"XON without vegas":     {do: own(cell.RelayXon, "\x00\x00\x00\x00\x01"), want: "XON"},
		"XON too early":         {do: own(cell.RelayXon, "\x00\x00\x00\x00\x01"), want: "XON", o: circuit.HopOptions{Congestion: true}},
		"XOFF for nothing":      {do: own(cell.RelayXoff, "\x00"), want: "XOFF", o: circuit.HopOptions{Congestion: true}},
		"DATA for no stream": {do: func(s *stream.Stream) { // the client's choice of the identifier is random
			_ = s.Hop().Send(cell.RelayData, max(s.ID()^1, 2), []byte("x"))
		}, want: "does not exist"},
		"CONNECTED twice":       {do: own(cell.RelayConnected, ""), want: "CONNECTED"},
		"short CONNECTED":       {do: own(cell.RelayConnected, "\x01"), want: "CONNECTED"},
		"EXTENDED2 unasked":     {do: send(cell.RelayExtended2, 0, "\x00\x00"), want: "EXTENDED2"},
		"BEGIN to a client":     {do: send(cell.RelayBegin, 77, "x:1\x00"), want: "BEGIN"},
		"RESOLVED for a stream": {do: own(cell.RelayResolved, ""), want: "RESOLVED"},
		"CONFLUX_SWITCH":        {do: send(cell.RelayConfluxSwitch, 0, "\x00\x00\x00\x01"), want: "CONFLUX_SWITCH"},
		"TRUNCATED":             {do: send(cell.RelayTruncated, 0, "\x01"), want: "truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			r := simnet.New(t, simnet.Options{Serve: c.do})
			good := simnet.New(t, simnet.Options{})
			m := newClient(t)
			circ, other := build(t, m, c.o, good, r), build(t, m, c.o, good)
			s, err := stream.Dial(deadline(t), circ.Last(), "x", 80)
			if err == nil {
				_, err = s.Read(make([]byte, 1))
			}
			if err == nil {
				t.Fatal("the stream must fail")
			}
			<-circ.Done()
			if cause := circ.Err(); !strings.Contains(cause.Error(), c.want) {
				t.Fatalf("cause %q does not name %q", cause, c.want)
			}
			if other.Err() != nil {
				t.Fatal("another circuit on the channel died")
			}
			echo(t, other)
		})
	}
}

func echo(t *testing.T, c *circuit.Circuit) {
	t.Helper()
	s, err := stream.Dial(deadline(t), c.Last(), "echo", 80)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	if _, err := io.ReadFull(s, b); err != nil || string(b) != "still here" {
		t.Fatal(string(b), err)
	}
	_ = s.Close()
}

// TestHostileCells: cells below the relay layer, on the guard's channel.
func TestHostileCells(t *testing.T) {
	raw := func(cmd cell.Command) []byte {
		b := make([]byte, cell.Len)
		_, _ = rand.Read(b)
		cell.PutHeader(b, 0, cmd)
		return b
	}
	for name, c := range map[string]struct {
		cells []byte
		want  string
	}{
		"unrecognised":    {raw(cell.CmdRelay), "no hop recognises"},
		"RELAY_EARLY":     {raw(cell.CmdRelayEarly), "RELAY_EARLY"},
		"second CREATED2": {raw(cell.CmdCreated2), "CREATED2"},
	} {
		t.Run(name, func(t *testing.T) {
			opened := make(chan *channel.CircuitEnd, 4)
			r := simnet.New(t, simnet.Options{Accepted: func(c *channel.CircuitEnd) { opened <- c }})
			m := newClient(t)
			circ := build(t, m, circuit.HopOptions{}, r)
			if err := (<-opened).Send(c.cells); err != nil {
				t.Fatal(err)
			}
			<-circ.Done()
			if err := circ.Err(); !fault.Is(err, fault.Protocol) || !strings.Contains(err.Error(), c.want) {
				t.Fatal(err)
			}
			echo(t, build(t, m, circuit.HopOptions{}, r)) // the channel lives
		})
	}
}

// TestFailedExtend: a hop that cannot be reached costs the circuit.
func TestFailedExtend(t *testing.T) {
	r := simnet.New(t, simnet.Options{})
	m := newClient(t)
	circ := build(t, m, circuit.HopOptions{}, r)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	dead := r.Target
	dead.RSA[0] ^= 1
	err := circ.Extend(ctx, dead, circuit.HopOptions{})
	if err == nil || circ.Err() == nil {
		t.Fatal("an extend that fails must close the circuit", err)
	}
}

// TestHostileClient: what a relay refuses of a client costs the client's
// circuit.
func TestHostileClient(t *testing.T) {
	for name, do := range map[string]func(*circuit.Circuit, *simnet.Relay) error{
		"EXTEND2 in RELAY": func(c *circuit.Circuit, r *simnet.Relay) error {
			return c.Last().Send(cell.RelayExtend2, 0, make([]byte, 40))
		},
		"short EXTEND2": func(c *circuit.Circuit, r *simnet.Relay) error {
			return c.Last().SendEarly(cell.RelayExtend2, 0, []byte{1})
		},
		"EXTEND2 to itself": func(c *circuit.Circuit, r *simnet.Relay) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := c.Extend(ctx, r.Target, circuit.HopOptions{}); err == nil {
				return fault.New(fault.Local, "it extended")
			}
			return nil
		},
		"CONNECTED": func(c *circuit.Circuit, r *simnet.Relay) error {
			return c.Last().Send(cell.RelayConnected, 4, nil)
		},
		"bad BEGIN": func(c *circuit.Circuit, r *simnet.Relay) error {
			return c.Last().Send(cell.RelayBegin, 4, []byte("no port"))
		},
		"SENDME for nothing": func(c *circuit.Circuit, r *simnet.Relay) error {
			return c.Last().Send(cell.RelaySendme, 0, append([]byte{1, 0, 20}, make([]byte, 20)...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := simnet.New(t, simnet.Options{})
			m := newClient(t)
			c := build(t, m, circuit.HopOptions{}, r)
			if err := do(c, r); err != nil {
				t.Fatal(err)
			}
			select {
			case <-c.Done():
			case <-deadline(t).Done():
				t.Fatal("the circuit lives")
			}
			echo(t, build(t, m, circuit.HopOptions{}, r))
		})
	}
}

// TestRelayEarlyBudget: a client sends no ninth cell, which would close the circuit.
func TestRelayEarlyBudget(t *testing.T) {
	r := simnet.New(t, simnet.Options{})
	c := build(t, newClient(t), circuit.HopOptions{}, r)
	var err error
	n := 0
	for ; n <= 8 && err == nil; n++ {
		err = c.Last().SendEarly(cell.RelayDrop, 0, nil)
	}
	if n--; n != 7 && n != 8 || !fault.Is(err, fault.Resource) {
		t.Fatal(n, err)
	}
	echo(t, c)
}

// TestWrongOnionKey: a relay that lacks the onion key cannot finish the
// handshake, of either kind.
func TestWrongOnionKey(t *testing.T) {
	r := simnet.New(t, simnet.Options{})
	m := newClient(t)
	for _, o := range []circuit.HopOptions{{}, {Handshake: handshake.Ntor}} {
		bad := r.Target
		bad.Ntor[5] ^= 1
		ch, err := m.Get(deadline(t), bad)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := circuit.Create(deadline(t), env, ch, bad, o); err == nil {
			t.Fatal("built", c)
		}
	}
}
