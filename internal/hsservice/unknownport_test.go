package hsservice

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// atService is the service's end of a client's circuit, which has no relay between.
type atService struct {
	t *testing.T
	s *Service
}

func (a atService) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	if a.s.clientOn(h.Circuit()) == nil {
		if !a.s.addClient(h.Circuit(), &clientCircuit{}) {
			a.t.Error("the service is closed")
		}
		a.s.removeClientAtEnd(h.Circuit())
	}
	return a.s.HandleStream(h, m)
}

// clientOf returns a client's circuit to a service.
func clientOf(t *testing.T, s *Service) *circuit.Circuit {
	t.Helper()
	r := simnet.New(t, simnet.Options{Streams: atService{t, s}})
	return r.Circuit(t)
}

// TestUnknownPort: a client that asks for a port at which there is nothing loses its circuit
// with all streams, unless the user wants to keep it; then it hears that the stream ended.
func TestUnknownPort(t *testing.T) {
	for name, allow := range map[string]bool{"closes": false, "kept": true} {
		t.Run(name, func(t *testing.T) {
			s, _ := hosted(t, nowhere{})
			if err := s.Reload(Live{Ports: map[uint16]bool{80: true}, AllowUnknownPorts: allow}); err != nil {
				t.Fatal(err)
			}
			c := clientOf(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			open := func(port uint16) (*stream.Stream, error) {
				st, err := stream.BeginOnion(c.Last(), "x.onion", port)
				if err != nil {
					return nil, err
				}
				return st, st.WaitOpen(ctx)
			}
			known, err := open(80)
			if err != nil {
				t.Fatal(err)
			}
			_, err = open(81)
			var end *stream.EndError
			switch {
			case !allow:
				select {
				case <-c.Done():
				case <-time.After(10 * time.Second):
					t.Fatal("the circuit stays")
				}
				if err == nil {
					t.Error("a stream to nothing is open")
				}
				if _, err := known.Read(make([]byte, 1)); err == nil || fault.Is(err, fault.Timeout) {
					t.Errorf("the stream to another port: %v", err)
				}
			case !errors.As(err, &end) || end.Reason != cell.EndDone:
				t.Errorf("a stream to nothing: %v", err)
			default:
				if _, err := open(80); err != nil {
					t.Errorf("a later stream: %v", err)
				}
			}
		})
	}
}
