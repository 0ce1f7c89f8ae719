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

// internalNet gives circuits over relays of simnet.
type internalNet struct {
	fakeNet
	build func() realCircuit
	n     atomic.Int32
}

func (n *internalNet) Internal(context.Context, bool) (OwnedCircuit, error) {
	n.n.Add(1)
	return n.build(), nil
}

func newInternalNet(t *testing.T) *internalNet {
	log := slog.New(slog.DiscardHandler)
	relays := []linkspec.Target{simnet.New(t, simnet.Options{}).Target, simnet.New(t, simnet.Options{}).Target}
	links := channel.NewManager(&channel.Config{Log: log, Now: time.Now}, &channel.LinkConfig{}, simnet.Dial)
	t.Cleanup(func() { links.Close() })
	env := &circuit.Env{Log: log, Now: time.Now, Padding: circuit.NewPaddingLimits(func() uint64 { return 0 }, new(atomic.Uint64))}
	return &internalNet{build: func() realCircuit {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ch, err := links.Get(ctx, relays[0])
		if err != nil {
			t.Fatal(err)
		}
		c, err := circuit.Build(ctx, env, ch, &circuit.Route{Targets: relays})
		if err != nil {
			t.Fatal(err)
		}
		return realCircuit{c}
	}}
}

// TestSpare: a rendezvous point that was made ahead serves one attempt; it ends with the
// client, with its identity, and after some time.
func TestSpare(t *testing.T) {
	n := newInternalNet(t)
	c := New(Config{Network: n, Log: slog.New(slog.DiscardHandler)})
	defer c.Close()
	made := func() *rendCircuit {
		t.Helper()
		c.makeSpare(false)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.spare.rend == nil || c.spare.timer == nil {
			t.Fatal("no spare point")
		}
		return c.spare.rend
	}
	ended := func(what string, r *rendCircuit) {
		t.Helper()
		if r.circ.Engine().Err() == nil {
			t.Errorf("%s: the circuit is open", what)
		}
		if c.takeSpare(false) != nil {
			t.Errorf("%s: there is a spare point", what)
		}
	}

	if c.takeSpare(false) != nil {
		t.Error("a point that nobody has made")
	}
	first := made()
	if c.makeSpare(true); n.n.Load() != 2 || c.spare.rend != first {
		t.Error("a second point took the place of the first")
	}
	if c.takeSpare(true) != nil {
		t.Error("a point that is not stable serves a stable stream")
	}
	m := c.startRendezvous(t.Context(), false)
	if r := <-m.circ; r != first {
		t.Error("an introduction cannot be made for it")
	}
	if got := <-m.done; got.rend != first || got.err != nil || first.state != rendEstablished {
		t.Error(got, first.state)
	}
	if r := <-m.circ; r != nil || c.takeSpare(false) != nil {
		t.Error("it serves two attempts")
	}
	first.close()

	dead := made()
	dead.circ.Engine().Close(cell.DestroyNone, fault.New(fault.Network, "gone"))
	ended("a circuit that has failed", dead)
	old := made()
	c.dropSpare() // what its timer does
	ended("too old", old)
	before := made()
	c.NewIdentity()
	ended("a new identity", before)
	if c.keepSpare(newRendCircuit(n.build()), false, 0) {
		t.Error("a point of the identity before is kept")
	}
	last := made()
	c.Close()
	ended("closed", last)
	if c.restock(false); c.spare.timer != nil {
		t.Error("a closed client makes a point")
	}
}

// TestRestock: the next point is made some time after a connection, and not during the
// next attempt.
func TestRestock(t *testing.T) {
	c := newClient(t, &fakeNet{})
	defer c.Close()
	c.restock(false)
	c.mu.Lock()
	waits := c.spare.timer != nil
	c.mu.Unlock()
	if waits {
		t.Error("a client that looks like others makes a point ahead")
	}
	c.cfg.Spare = true
	c.restock(false)
	c.mu.Lock()
	waits = c.spare.timer != nil
	c.mu.Unlock()
	if !waits {
		t.Error("no point will be made")
	}
	c.takeSpare(false)
	c.mu.Lock()
	waits = c.spare.timer != nil
	c.mu.Unlock()
	if waits {
		t.Error("a point will be made during an attempt")
	}
}

// TestOneIsMade: while a point is being made, which takes long, connections have no other
// one made.
func TestOneIsMade(t *testing.T) {
	n := newInternalNet(t)
	build, begun, goOn := n.build, make(chan struct{}), make(chan struct{})
	n.build = func() realCircuit {
		begun <- struct{}{}
		<-goOn
		return build()
	}
	c := New(Config{Network: n, Log: slog.New(slog.DiscardHandler)})
	defer c.Close()
	made := make(chan struct{})
	go func() { c.makeSpare(false); close(made) }()
	<-begun
	others := make(chan struct{})
	go func() { c.makeSpare(false); close(others) }()
	select {
	case <-others:
	case <-begun:
		t.Error("two points are being made")
		goOn <- struct{}{}
	}
	goOn <- struct{}{}
	<-made
	n.build = build
	c.dropSpare()
	if c.makeSpare(false); c.takeSpare(false) == nil {
		t.Error("no other point is made later")
	}
}
