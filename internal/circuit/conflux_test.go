package circuit_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

var vegas = circuit.HopOptions{Congestion: true}

// linked returns two circuits to one exit as a set.
func linked(t *testing.T) (first, second *circuit.Circuit, relays []*simnet.Relay) {
	t.Helper()
	a, b, exit := simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{})
	m := newClient(t)
	first, second = build(t, m, vegas, a, exit), build(t, m, vegas, b, exit)
	set, err := circuit.LinkConflux(deadline(t), []*circuit.Circuit{first, second}, cell.ConfluxHighThroughput)
	if err != nil {
		t.Fatal(err)
	}
	legs := set.Legs()
	if len(legs) != 2 || first.Last().Conflux() != set {
		t.Fatal("the legs are not linked")
	}
	if legs[0] == second {
		a, b = b, a
	}
	return legs[0], legs[1], []*simnet.Relay{a, b, exit}
}

// TestConflux: streams over two legs arrive whole, in both directions at once,
// and both legs carry cells.
func TestConflux(t *testing.T) {
	first, _, relays := linked(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { transfer(t, first) })
	}
	wg.Wait()
	for i, r := range relays[:2] {
		if n := r.Stats.CellsIn.Load(); n < 500 {
			t.Errorf("leg %d carried %d cells", i, n)
		}
	}
}

// TestConfluxLegDies: the set ends as a whole with its first leg, its streams with a
// cause.
func TestConfluxLegDies(t *testing.T) {
	first, second, relays := linked(t)
	s, err := stream.Dial(deadline(t), first.Last(), "echo", 80)
	if err != nil {
		t.Fatal(err)
	}
	relays[0].Stop()
	<-first.Done()
	<-second.Done()
	if _, err := s.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Fatal(err)
	}
}

// TestConfluxCloses: a close of one leg closes the other one; its cause shows
// that no relay closed it.
func TestConfluxCloses(t *testing.T) {
	first, second, _ := linked(t)
	cause := make(chan error, 1)
	second.OnClose(func(err error) { cause <- err })
	first.Close(cell.DestroyNone, fault.New(fault.Closed, "closed by the test"))
	if err := <-cause; !errors.Is(err, circuit.ErrLegClosed) || !fault.Is(err, fault.Closed) {
		t.Fatal(err)
	}
	if err := first.Err(); errors.Is(err, circuit.ErrLegClosed) {
		t.Fatal(err)
	}
}

// TestConfluxRefuses: a relay refuses what a client must not do with sets.
func TestConfluxRefuses(t *testing.T) {
	var link cell.ConfluxLink
	for name, c := range map[string]struct {
		o  circuit.HopOptions
		do func(h *circuit.Hop) error
	}{
		"no congestion control": {circuit.HopOptions{}, func(h *circuit.Hop) error { return h.Send(cell.RelayConfluxLink, 0, link.Append(nil)) }},
		"short":                 {vegas, func(h *circuit.Hop) error { return h.Send(cell.RelayConfluxLink, 0, []byte{1, 2}) }},
		"ack first":             {vegas, func(h *circuit.Hop) error { return h.Send(cell.RelayConfluxLinkedAck, 0, nil) }},
		"switch":                {vegas, func(h *circuit.Hop) error { return h.Send(cell.RelayConfluxSwitch, 0, []byte{0, 0, 0, 1}) }},
		"linked":                {vegas, func(h *circuit.Hop) error { return h.Send(cell.RelayConfluxLinked, 0, link.Append(nil)) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := simnet.New(t, simnet.Options{})
			circ := build(t, newClient(t), c.o, r)
			// The circuit may have closed before the last of it was sent.
			if err := c.do(circ.Last()); err != nil && !fault.Is(err, fault.Closed) {
				t.Fatal(err)
			}
			select {
			case <-circ.Done():
			case <-deadline(t).Done():
				t.Fatal("the circuit lives")
			}
			// The relay did it, and not this client because of an answer that nobody awaits.
			var d *channel.DestroyedError
			if err := circ.Err(); !errors.As(err, &d) || d.Reason != cell.DestroyProtocol {
				t.Error(err)
			}
		})
	}
}

// gatedConn is a connection whose reads return nothing while the gate is held.
type gatedConn struct {
	net.Conn
	gate *sync.RWMutex
}

func (c gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.gate.RLock() // after the read: otherwise a test that wants the gate would wait for bytes that may never come
	defer c.gate.RUnlock()
	return n, err
}

// gatedClient is newClient with such connections.
func gatedClient(t *testing.T) (*channel.Manager, *sync.RWMutex) {
	gate := new(sync.RWMutex)
	m := channel.NewManager(&channel.Config{Log: env.Log, Now: time.Now}, &channel.LinkConfig{}, func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		c, err := simnet.Dial(ctx, addr)
		return gatedConn{c, gate}, err
	})
	t.Cleanup(m.Close)
	return m, gate
}

// TestConfluxGivenUp: if the caller's context ends before circuits are linked,
// their cause says so.
func TestConfluxGivenUp(t *testing.T) {
	a, b, exit := simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{})
	m, gate := gatedClient(t)
	first, second := build(t, m, vegas, a, exit), build(t, m, vegas, b, exit)
	gate.Lock()
	defer gate.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := circuit.LinkConflux(ctx, []*circuit.Circuit{first, second}, cell.ConfluxHighThroughput)
	for _, err := range []error{err, first.Err(), second.Err()} {
		if !errors.Is(err, circuit.ErrLinkGivenUp) || !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// TestConfluxLegStalls: while one leg delivers nothing, the other one runs ahead
// only by a bounded number of messages; when the first leg continues, all
// messages arrive in order.
func TestConfluxLegStalls(t *testing.T) {
	const size = 24 << 20 // three times what may wait for its turn
	a, b := simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{})
	exit := simnet.New(t, simnet.Options{Serve: func(s *stream.Stream) {
		defer s.Close()
		io.CopyN(s, rand.NewChaCha8([32]byte{7}), size) // the client reports missing bytes
	}})
	slow, gate := gatedClient(t)
	first, second := build(t, newClient(t), vegas, a, exit), build(t, slow, vegas, b, exit)
	set, err := circuit.LinkConflux(deadline(t), []*circuit.Circuit{first, second}, cell.ConfluxHighThroughput)
	if err != nil {
		t.Fatal(err)
	}
	s, err := stream.Dial(deadline(t), set.Legs()[0].Last(), "source", 80)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h, want := sha256.New(), sha256.New()
	if _, err := io.CopyN(h, s, 4<<20); err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		gate.Lock()
		close(closed)
		// The exit continues on the other leg until that leg's window is full,
		// too.
		look := time.NewTicker(5 * time.Millisecond)
		defer look.Stop()
		for last, same := uint64(0), 0; same < 20; {
			<-look.C
			if n := a.Stats.CellsIn.Load(); n != last {
				last, same = n, 0
			} else {
				same++
			}
		}
		gate.Unlock()
	}()
	got, err := io.Copy(h, s)
	<-closed
	if err != nil || got != size-4<<20 {
		t.Fatalf("%d bytes after the first: %v; circuit: %v", got, err, first.Err())
	}
	io.CopyN(want, rand.NewChaCha8([32]byte{7}), size)
	if !bytes.Equal(h.Sum(nil), want.Sum(nil)) {
		t.Error("the bytes differ")
	}
}
