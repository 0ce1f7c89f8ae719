package hostile

import "testing"

// FuzzRelayStates has hostile clients and relays do what they like to a relay.
func FuzzRelayStates(f *testing.F) {
	f.Fuzz(func(t *testing.T, input []byte) { run(t, input, relayOps, newRelayWorld) })
}
