package hsclient

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/simnet"
)

// realCircuit is one over relays of simnet.
type realCircuit struct{ c *circuit.Circuit }

func (r realCircuit) Engine() *circuit.Circuit { return r.c }
func (r realCircuit) ID() uint64               { return 1 }
func (r realCircuit) Last() linkspec.Target    { return *r.c.Last().Info().Target }
func (r realCircuit) Close() {
	r.c.Close(cell.DestroyNone, fault.New(fault.Closed, "closed"))
}

// TestLeaveIntro: a circuit to an introduction point closes when it is left, unless it
// has padding machines: then it closes later, for a newer one, or with the client.
func TestLeaveIntro(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	log := slog.New(slog.DiscardHandler)
	relays := []linkspec.Target{simnet.New(t, simnet.Options{}).Target, simnet.New(t, simnet.Options{}).Target}
	links := channel.NewManager(&channel.Config{Log: log, Now: time.Now}, &channel.LinkConfig{}, simnet.Dial)
	defer links.Close()
	env := &circuit.Env{Log: log, Now: time.Now, Padding: circuit.NewPaddingLimits(func() uint64 { return 0 }, new(atomic.Uint64))}
	build := func(padded bool) realCircuit {
		ch, err := links.Get(ctx, relays[0])
		if err != nil {
			t.Fatal(err)
		}
		c, err := circuit.Build(ctx, env, ch, &circuit.Route{Targets: relays})
		if err != nil {
			t.Fatal(err)
		}
		if padded && !c.Pad(circuit.PadIntroduction) {
			t.Fatal("no padding")
		}
		return realCircuit{c}
	}
	idle := time.Hour
	c := New(Config{Network: &fakeNet{}, Log: log, Idle: func() time.Duration { return idle }})
	plain := build(false)
	if c.leaveIntro(plain); plain.c.Err() == nil {
		t.Error("a circuit without padding stays open")
	}
	first := build(true)
	if c.leaveIntro(first); first.c.Err() != nil {
		t.Error("a circuit with padding closed at once")
	}
	for range maxLingering {
		c.leaveIntro(build(true))
	}
	if first.c.Err() == nil {
		t.Error("the oldest did not make room")
	}
	c.mu.Lock()
	all := len(c.lingering)
	last := c.lingering[all-1].circ
	c.mu.Unlock()
	if all != maxLingering || last.Engine().Err() != nil {
		t.Error(all, last.Engine().Err())
	}
	idle = time.Millisecond
	short := build(true)
	c.leaveIntro(short)
	<-short.c.Done()
	c.Close()
	if last.Engine().Err() == nil {
		t.Error("a circuit outlived the client")
	}
}
