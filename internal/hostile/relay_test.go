package hostile

import "testing"

// FuzzRelayStates has hostile clients and relays do what they like to a relay.
func FuzzRelayStates(f *testing.F) {
	fuzz(f, relayOps, newRelayWorld)
}

// nextHopOps is what has to do with the relays that a relay extends to.
var nextHopOps = relayOps.only("create", "extend", "script", "answer-now", "next-cell", "next-message", "message", "truncate", "fragment", "data", "link", "honest", "mangle", "rekey", "rekey-confirm")

// FuzzNextHopStates has hostile relays answer what a relay asks of them.
func FuzzNextHopStates(f *testing.F) {
	fuzz(f, nextHopOps, newRelayWorld)
}
