package tord

import (
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/handshake"
)

// TestQuantumLine: open circuits are counted by how many of their hops are protected.
func TestQuantumLine(t *testing.T) {
	with := client.HopProtection{Protection: circuit.Protection{Set: handshake.PQ768}}
	plain := client.HopProtection{}
	circuits := []client.CircuitReport{
		{Step: client.CircuitBuilt, Hops: []client.HopProtection{with, with, with}},
		{Step: client.CircuitBuilt, Hops: []client.HopProtection{with, plain, with}},
		{Step: client.CircuitBuilt, Hops: []client.HopProtection{plain, with}},
		{Step: client.CircuitBuilt, Hops: []client.HopProtection{plain, plain}},
		{Step: client.CircuitBuilt},
		{Step: client.CircuitLaunched, Hops: []client.HopProtection{plain}},
	}
	if got := quantumLine(circuits); got != "ALL=1 SOME=2 NONE=1" {
		t.Error(got)
	}
	if got := quantumLine(nil); got != "ALL=0 SOME=0 NONE=0" {
		t.Error(got)
	}
}

// TestOnionLine: all of a service's state is on the line.
func TestOnionLine(t *testing.T) {
	s := chive.OnionStatus{Address: "a.onion", Published: true, IntroductionPoints: []string{"x", "y"}, Missing: 3, AuthorizedClients: 4, Circuits: 5, Streams: 6, Uploaded: time.Unix(0, 0)}
	if got, want := onionLine(&s), `a PUBLISHED=1 POINTS=2 MISSING=3 CLIENTS=4 CIRCUITS=5 STREAMS=6 UPLOADED="1970-01-01 00:00:00"`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
