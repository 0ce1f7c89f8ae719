package hsservice

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/simnet"
)

// counting gives circuits one after the other, and counts them.
type counting struct {
	nowhere
	give  func(ctx context.Context) (*circuit.Circuit, error)
	calls *int
	open  *int // calls under way
	most  *int
}

func (c counting) To(ctx context.Context, _ linkspec.Target, _ []linkspec.Spec) (*circuit.Circuit, uint64, error) {
	*c.calls++
	*c.open++
	*c.most = max(*c.most, *c.open)
	defer func() { *c.open-- }()
	circ, err := c.give(ctx)
	return circ, 1, err
}

// TestRelaunchedOnce: a circuit to a rendezvous point that fails on the way is built once more,
// after it has failed. One on which the answer may have left is not: no two circuits have the
// same cookie and keys.
func TestRelaunchedOnce(t *testing.T) {
	n := newOneRelay(t, simnet.Options{})
	closed, _, err := n.To(t.Context(), linkspec.Target{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close(cell.DestroyNone, errors.New("the test closes it"))
	for name, x := range map[string]struct {
		give  func(ctx context.Context) (*circuit.Circuit, error)
		calls int
	}{
		"on the way":        {func(context.Context) (*circuit.Circuit, error) { return nil, fault.New(fault.Network, "no way") }, rendTries},
		"when it was there": {func(context.Context) (*circuit.Circuit, error) { return closed, nil }, 1},
		"at the end": {func(ctx context.Context) (*circuit.Circuit, error) {
			c, _, err := n.To(ctx, linkspec.Target{}, nil)
			return c, err // the relay knows of no such rendezvous, and closes it
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var calls, open, most int
			s, p := hosted(t, counting{give: x.give, calls: &calls, open: &open, most: &most})
			m, err := s.decrypt(p, ask().message(t, p), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			err = s.rendezvous(t.Context(), m)
			if name == "at the end" {
				for _, c := range s.joinedNow() {
					<-c.Done()
				}
			} else if err == nil {
				t.Error("it has worked")
			}
			if calls != x.calls || most != 1 {
				t.Errorf("%d circuits, %d at one time", calls, most)
			}
		})
	}
}

// joinedNow returns the circuits that join clients.
func (s *Service) joinedNow() []*circuit.Circuit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.clients))
}

// TestRendezvousLooksAlike: RENDEZVOUS1 is as long as C tor's, and its padding is random.
func TestRendezvousLooksAlike(t *testing.T) {
	n := newOneRelay(t, simnet.Options{})
	client, _, err := n.To(t.Context(), linkspec.Target{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(cell.DestroyNone, errors.New("the test is over"))
	came := make(chan []byte, 1)
	client.Last().Handle(cell.RelayRendezvous2, func(m cell.RelayMsg) error {
		came <- bytes.Clone(m.Data)
		return nil
	})
	want, err := client.Last().Expect(cell.RelayRendezvousEstablished)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	established := cell.EstablishRendezvous{Cookie: [cell.CookieLen]byte{ask().cookie}}
	if err := client.Last().Send(cell.RelayEstablishRendezvous, 0, established.Append(nil)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := want.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	s, p := hosted(t, n)
	m, err := s.decrypt(p, ask().message(t, p), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.rendezvous(ctx, m); err != nil {
		t.Fatal(err)
	}
	body := <-came
	if len(body) != rendLen-cell.CookieLen {
		t.Fatalf("%d bytes", len(body))
	}
	seen := map[byte]bool{}
	for _, b := range body[handshake.HSRendLen:] {
		seen[b] = true
	}
	if len(seen) < 20 {
		t.Errorf("the padding has %d values", len(seen))
	}
}

// TestUnusedRendezvous: a circuit of a client that opens nothing closes sooner than one that
// had a stream, and no circuit with a stream closes.
func TestUnusedRendezvous(t *testing.T) {
	s := quiet(t)
	gone := make(chan *circuit.Circuit, 10)
	s.destroy = func(c *circuit.Circuit) { gone <- c }
	now := time.Now()
	unused, used, busy := new(circuit.Circuit), new(circuit.Circuit), new(circuit.Circuit)
	add := func(c *circuit.Circuit, had bool, streams int64) {
		r := &clientCircuit{idle: now}
		r.used.Store(had)
		r.open.Store(streams)
		s.clients[c] = r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer clear(s.clients) // they are none that can be closed
	add(unused, false, 0)
	add(used, true, 0)
	add(busy, true, 1)
	for _, x := range []struct {
		at   time.Duration
		gone *circuit.Circuit
	}{{rendUnused - 1, nil}, {rendUnused, unused}, {rendIdle - 1, nil}, {rendIdle, used}, {100 * rendIdle, nil}} {
		s.closeUnusedLocked(now.Add(x.at))
		if x.gone == nil {
			continue
		}
		select {
		case got := <-gone:
			if got != x.gone {
				t.Errorf("after %v another circuit closes", x.at)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("after %v no circuit closes", x.at)
		}
		delete(s.clients, x.gone)
	}
	if len(gone) > 0 {
		t.Error("a circuit closes too early")
	}
}
