package path

import (
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// TestExitIn: the exit is one of those that a stream asks for, also where the user's own choice is a
// wish only; and if there is none, there is no path.
func TestExitIn(t *testing.T) {
	d := ctor(t)
	c := &Config{SameSubnet: true, Exit: set(t, "e2")}
	m := manager(t, d, c.GuardFilter(d))
	for seed := range uint64(50) {
		if p := choose(t, c, d, m, rng(seed), Spec{Dests: web, ExitIn: set(t, "e1", "r3")}); p.Exit().Relay.Nickname() != "e1" {
			t.Fatalf("path %s", names(p))
		}
	}
	c.Strict = true
	for _, s := range []Spec{{Dests: web, ExitIn: set(t, "r3")}, {Dests: web, ExitIn: set(t, "nobody")}, {Dests: web, ExitIn: set(t, "e1")}} {
		if err := refuses(t, c, d, m, s, "no exit for port 443 in "+s.ExitIn.String()+":"); !fault.Is(err, fault.Config) {
			t.Errorf("kind %v", fault.KindOf(err))
		}
	}
	// Other hops may be anywhere.
	c = &Config{SameSubnet: true}
	if err := refuses(t, c, d, m, Spec{Dests: web, ExitIn: set(t, "nobody")}); !fault.Is(err, fault.Config) {
		t.Errorf("kind %v", fault.KindOf(err))
	}
	if p := choose(t, c, d, m, rng(1), Spec{Dests: web, ExitIn: set(t, "e1")}); len(p.Hops) != 3 {
		t.Errorf("path %s", names(p))
	}
}
