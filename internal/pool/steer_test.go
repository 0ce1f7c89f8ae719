package pool

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// TestSteered: a circuit that a controller had built, or to which it attached a stream, gets only the streams that it
// attaches, and ends as others do.
func TestSteered(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	run(t, bare(), b, func(p *Pool) {
		own := circuit(90, Spec{})
		own.everything = true
		if err := p.Adopt(own); err != nil {
			t.Fatal(err)
		}
		other := acquire(t, p, to(443, key("a")))
		if other.Circuit == PooledCircuit(own) {
			t.Fatal("a stream got a controller's circuit by itself")
		}
		first, err := p.Take(own, key("a"))
		if err != nil {
			t.Fatal(err)
		}
		second, err := p.Take(own, key("b"))
		if err != nil || second.Circuit != PooledCircuit(own) {
			t.Fatal(err)
		}
		if s := p.Status(); s.Dirty != 2 || s.Streams != 3 || s.Leased != 3 {
			t.Errorf("%+v", s)
		}
		if _, err := p.Take(other.Circuit, key("b")); err != nil {
			t.Fatal(err)
		}
		if again := acquire(t, p, to(443, key("a"))); again.Circuit == other.Circuit {
			t.Error("a stream got a circuit to which a controller attached another's")
		}
		if _, err := p.Take(circuit(91, Spec{}), key("a")); !fault.Is(err, fault.Closed) {
			t.Errorf("a circuit from elsewhere: %v", err)
		}
		time.Sleep(defaultDirtiness + time.Second)
		if own.closed() {
			t.Error("it was closed under its streams")
		}
		first.Release()
		second.Release()
		time.Sleep(time.Second)
		if !own.closed() {
			t.Error("it is kept although it is old, and has no streams")
		}
	})
}

// TestSteeredUnused: a controller's circuit that nobody uses ends after some time, and does not keep the pool from
// building its own.
func TestSteeredUnused(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	run(t, Config{InitialPorts: []uint16{443}, PerPort: 1, MaxClean: 1, CleanTimeout: time.Hour, Predict: 10 * time.Hour}, b, func(p *Pool) {
		own := circuit(90, Spec{})
		own.everything = true
		if err := p.Adopt(own); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if n := b.launched(); n != 1 {
			t.Errorf("%d circuits were built ahead", n)
		}
		time.Sleep(time.Hour)
		if !own.closed() {
			t.Error("it is kept for ever")
		}
	})
}

// TestSteeredExpires: the keeper learns of a circuit that it did not build.
func TestSteeredExpires(t *testing.T) {
	cfg := bare()
	cfg.CleanTimeout, cfg.Predict = time.Minute, time.Hour
	run(t, cfg, &fakeBuilder{}, func(p *Pool) {
		time.Sleep(time.Second)
		own := circuit(90, Spec{})
		if err := p.Adopt(own); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + time.Second)
		if !own.closed() {
			t.Error("it was not closed in time")
		}
	})
}

// TestSteeredReplaced: when a circuit becomes a controller's, another one is built ahead in its place.
func TestSteeredReplaced(t *testing.T) {
	for name, steer := range map[string]func(*Pool, PooledCircuit) error{
		"Steer": func(p *Pool, c PooledCircuit) error { p.Steer(c); return nil },
		"Take":  func(p *Pool, c PooledCircuit) error { _, err := p.Take(c, key("a")); return err },
	} {
		b := &fakeBuilder{took: time.Second}
		run(t, Config{InitialPorts: []uint16{443}, PerPort: 1}, b, func(p *Pool) {
			time.Sleep(2 * time.Second)
			if n := b.launched(); n != 1 {
				t.Fatalf("%s: %d circuits were built ahead", name, n)
			}
			if err := steer(p, b.circuits[0]); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * time.Second)
			if n := b.launched(); n != 2 {
				t.Errorf("%s: %d circuits were built", name, n)
			}
		})
	}
}

// TestTakeBound: a controller's circuit has no more streams than others.
func TestTakeBound(t *testing.T) {
	cfg := bare()
	cfg.MaxStreams = 2
	run(t, cfg, &fakeBuilder{}, func(p *Pool) {
		own := circuit(90, Spec{})
		if err := p.Adopt(own); err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{true, true, false} {
			if _, err := p.Take(own, key("a")); (err == nil) != want {
				t.Errorf("stream %d: %v", i+1, err)
			}
		}
	})
}

// TestSteer: a circuit that becomes a controller's gets no other streams from then on.
func TestSteer(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	run(t, bare(), b, func(p *Pool) {
		first := acquire(t, p, to(443, key("a")))
		if again := acquire(t, p, to(443, key("a"))); again.Circuit != first.Circuit {
			t.Fatal("it was not shared before")
		}
		p.Steer(first.Circuit)
		if again := acquire(t, p, to(443, key("a"))); again.Circuit == first.Circuit {
			t.Error("it is shared")
		}
	})
}

// TestAdoptClosed: a closed pool keeps nothing.
func TestAdoptClosed(t *testing.T) {
	p := New(bare(), &fakeBuilder{})
	p.Close()
	if err := p.Adopt(circuit(1, Spec{})); !errors.Is(err, errClosed) {
		t.Error(err)
	}
}

// TestSteeredFromTheStart: a circuit that became a controller's while it was being built gets no other streams. Who waited for
// it gets another one.
func TestSteeredFromTheStart(t *testing.T) {
	b := &fakeBuilder{took: time.Second}
	b.make = func(n int, _ context.Context, s Spec) (*fakeCircuit, error) {
		c := circuit(n, s)
		c.steered = n == 0
		return c, nil
	}
	run(t, bare(), b, func(p *Pool) {
		got := acquire(t, p, to(443, key("a")))
		if got.Circuit.Steered() || b.launched() != 2 {
			t.Errorf("steered: %v, of %d", got.Circuit.Steered(), b.launched())
		}
		if _, err := p.Take(b.circuits[0], key("b")); err != nil {
			t.Error(err)
		}
	})
}
