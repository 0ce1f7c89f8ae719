package circuit_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/panics/panicstest"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// mistaken takes streams, and panics over those that a test wants it to.
type mistaken struct {
	armed atomic.Bool
	next  *simnet.Relay
}

func (m *mistaken) HandleStream(h *circuit.Hop, msg cell.RelayMsg) error {
	if m.armed.Swap(false) {
		panic("a mistake over a stream")
	}
	return m.next.HandleStream(h, msg)
}

// once panics when it is armed, and disarms itself.
func once(armed *atomic.Bool) {
	if armed.Swap(false) {
		panic("a mistake over a circuit")
	}
}

// TestPanicAtARelay: a panic over a circuit, wherever in a relay, closes that
// circuit to its client, and no other of the same link.
func TestPanicAtARelay(t *testing.T) {
	streams := new(mistaken)
	var accepting, onionskin atomic.Bool
	var log panicstest.Log
	first := simnet.New(t, simnet.Options{
		Accepted:  func(*channel.CircuitEnd) { once(&accepting) },
		Onionskin: func() { once(&onionskin) },
		Log:       log.Logger(),
	})
	last := simnet.New(t, simnet.Options{Streams: streams, Log: log.Logger()})
	streams.next = last
	m := newClient(t)
	other := build(t, m, circuit.HopOptions{}, first, last)
	echo(t, other)
	closed := func(t *testing.T, c *circuit.Circuit, err error) {
		t.Helper()
		if err == nil {
			t.Error("it went well")
		}
		if c != nil {
			<-c.Done()
		}
		if other.Err() != nil {
			t.Fatal("another circuit on the link died")
		}
		echo(t, other)
	}
	create := func(t *testing.T) error {
		ch, err := m.Get(deadline(t), first.Target)
		if err != nil {
			t.Fatal(err)
		}
		_, err = circuit.Create(deadline(t), env, ch, first.Target, circuit.HopOptions{})
		return err
	}
	for name, f := range map[string]func(t *testing.T){
		"a stream at the exit": func(t *testing.T) {
			c := build(t, m, circuit.HopOptions{}, first, last)
			streams.armed.Store(true)
			_, err := stream.Dial(deadline(t), c.Last(), "echo", 80)
			closed(t, c, err)
		},
		"a CREATE cell": func(t *testing.T) {
			accepting.Store(true)
			closed(t, nil, create(t))
		},
		"an onionskin": func(t *testing.T) {
			// As often as there are workers, and once more: none may be lost.
			for range runtime.GOMAXPROCS(0) + 1 {
				onionskin.Store(true)
				closed(t, nil, create(t))
			}
			if err := create(t); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := uint64(1)
			if name == "an onionskin" {
				n = uint64(runtime.GOMAXPROCS(0) + 1)
			}
			panicstest.Expect(t, n)
			f(t)
		})
	}
	if n := len(log.Panics()); n != 3 { // each subtest begins anew
		t.Errorf("%d stacks were logged: %q", n, log.Panics())
	}
}
