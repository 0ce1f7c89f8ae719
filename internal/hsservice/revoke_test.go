package hsservice

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/ident"
)

// TestRemovedClients: when a client is removed, or authorization is turned on, the circuits
// of all clients that came by points of that time end, together with these points, and so do
// rendezvous under way and introductions that wait. Nothing ends when clients are added.
func TestRemovedClients(t *testing.T) {
	alice, bob := someClient(t), someClient(t)
	for name, c := range map[string]struct {
		before, after []ident.X25519Key
		shut, out     bool // out: the new descriptors come out
	}{
		"one less":             {[]ident.X25519Key{alice, bob}, []ident.X25519Key{alice}, true, true},
		"no longer for all":    {nil, []ident.X25519Key{alice}, true, true},
		"another in his place": {[]ident.X25519Key{alice}, []ident.X25519Key{bob}, true, true},
		"no directory answers": {[]ident.X25519Key{alice, bob}, []ident.X25519Key{alice}, true, false},
		"one more":             {[]ident.X25519Key{alice}, []ident.X25519Key{alice, bob}, false, true},
		"for all from now on":  {[]ident.X25519Key{alice}, nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hostedOn(t, nowhere{})
				defer s.Close()
				var closed []*circuit.Circuit
				s.destroy = func(c *circuit.Circuit) { closed = append(closed, c) } // under the mutex
				told := make(chan *circuit.Circuit, 9)
				s.endStreams = func(c *circuit.Circuit) { told <- c }
				if err := s.Reload(Live{Clients: c.before}); err != nil {
					t.Fatal(err)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				s.descs = []*descriptor{new(descriptor)}
				s.notBefore = time.Now().Add(time.Hour) // the test launches by itself
				point := func(relay byte) *point {
					p := up(t, s, relay, time.Now())
					p.epoch = s.epoch
					return p
				}
				old := point(1)
				defer func() { // there is none to close
					for _, p := range s.points {
						p.circ = nil
					}
					clear(s.clients)
				}()
				came := new(circuit.Circuit)
				s.clients[came] = &clientCircuit{epoch: s.epoch}
				s.clients[came].open.Add(1)
				ctx, cancel := context.WithCancelCause(t.Context())
				s.pending = append(s.pending, &pendingRend{wish{through: old}, time.Now(), cancel})

				s.mu.Unlock()
				err := s.Reload(Live{Clients: c.after, IntroductionPoints: 1})
				s.mu.Lock()
				if err != nil {
					t.Fatal(err)
				}
				s.tendPointsLocked(time.Now())
				if len(closed) > 0 || ctx.Err() != nil {
					t.Error("clients are cut off before they can come again")
				}
				next := point(2)
				again := new(circuit.Circuit)
				s.clients[again] = &clientCircuit{epoch: s.epoch}
				s.tendPointsLocked(time.Now())
				if c.out {
					old.outSince = time.Now()
				} else {
					s.mu.Unlock()
					time.Sleep(revokedLife) // virtual
					s.mu.Lock()
				}
				s.tendPointsLocked(time.Now())
				s.mu.Unlock()
				synctest.Wait()
				s.mu.Lock()
				if slices.Contains(closed, came) {
					t.Error("a circuit is closed before its streams' ends are out")
				}
				if got := len(told) == 1 && <-told == came; got != c.shut {
					t.Errorf("the streams of a client that came before end: %v", got)
				}
				if got := s.clientOnLocked(came) == nil; got != c.shut {
					t.Errorf("such a client can open no more streams: %v", got)
				}
				s.tendPointsLocked(time.Now())
				if len(told) > 0 {
					t.Error("the streams end twice")
				}
				s.mu.Unlock()
				time.Sleep(endTime) // virtual
				s.mu.Lock()
				s.tendPointsLocked(time.Now())
				if got := slices.Contains(closed, came); got != c.shut {
					t.Errorf("the circuit of a client that came before is closed: %v", got)
				}
				if slices.Contains(closed, again) {
					t.Error("the circuit of a client that came afterwards is closed")
				}
				if got := errors.Is(context.Cause(ctx), errRevoked); got != c.shut {
					t.Errorf("a rendezvous under way has ended: %v", got)
				}
				if got := slices.Contains(s.points, old); got == c.shut {
					t.Errorf("the old point stays: %v", got)
				}
				s.mu.Unlock()
				defer s.mu.Lock()
				m := &rendRequest{key: replayKey{1}, epoch: old.epoch}
				if got := errors.Is(s.accept(old, m, time.Now()), errRevoked); got != c.shut {
					t.Errorf("an introduction that waited is refused: %v", got)
				}
				if err := s.accept(next, &rendRequest{key: replayKey{2}, cookie: [20]byte{2}, epoch: next.epoch}, time.Now()); err != nil {
					t.Errorf("an introduction by the new point: %v", err)
				}
				if got := s.addClient(new(circuit.Circuit), &clientCircuit{epoch: m.epoch}); got == c.shut {
					t.Errorf("a rendezvous that was almost there is joined: %v", got)
				}
			})
		})
	}
}
