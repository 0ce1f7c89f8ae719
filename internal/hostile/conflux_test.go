package hostile

import "testing"

// Conflux sets, at both ends.
var (
	confluxRelayOps = relayOps.only("create", "conflux-link", "conflux-ack", "conflux-switch", "begin", "data", "sendme", "xon", "stream-end", "resolve", "message", "extend", "fragment", "deaf", "honest", "mangle", "begin-dir", "replay", "truncate",
		"establish-rendezvous", "rendezvous", "establish-intro", "introduce", "junk", "meet-and-end")
	confluxClientOps = clientOps.only("build", "dial", "write", "read", "close-stream", "link-legs", "script", "connected", "data", "sendme", "xon", "stream-end", "linked", "conflux-switch", "message", "truncated", "deaf", "honest", "mangle", "replay", "lookup", "resolved")
)

// FuzzConfluxStates has the legs of sets do what they like, to the relay where
// they end, or, when edits is odd, to the client.
func FuzzConfluxStates(f *testing.F) {
	prepare(f)
	f.Fuzz(func(t *testing.T, input []byte, edits uint32) {
		if edits&1 != 0 {
			run(t, input, edits>>1, confluxClientOps, newClientWorld)
		} else {
			run(t, input, edits>>1, confluxRelayOps, newRelayWorld)
		}
	})
}

// confluxSeeds are valid sets.
func confluxSeeds() map[string]fuzzInput {
	relay := func(all ...do) fuzzInput { return seed(confluxRelayOps, all...) }
	client := func(all ...do) fuzzInput { return fuzzInput{seed(confluxClientOps, all...).program, 1} }
	linked := []do{{"create", 0, 0, optCC}, {"create", 5, 0, optCC}, {"conflux-link", 0, 0, 0}, {"conflux-link", 1, 0, 0}, {"conflux-ack", 0, 0, 0}, {"conflux-ack", 1, 0, 0}}
	legs := []do{{"build", 0, 5, optCC}, {"build", 1, 3, optCC}, {"link-legs", 0, 1, 1}, {"linked", 0x11, 0, 0}, {"linked", 0x10, 0, 0}, {"dial", 0, 0, 0}, {"connected", 0x11, 0, 0}}
	with := func(first []do, more ...do) []do { return append(first[:len(first):len(first)], more...) }
	return map[string]fuzzInput{
		"relay-download": relay(with(linked, do{"begin", 0, 0, 0}, do{"data", 0, 0x70, 9}, do{"sendme", 0, 0, 0}, do{"sendme", 1, 0, 0}, do{"data", 0, 0x70, 9}, do{"stream-end", 0, 0, 6})...),
		"relay-switch":   relay(with(linked, do{"begin", 0, 0, 0}, do{"data", 0, 0x10, 2}, do{"conflux-switch", 1, 3, 0}, do{"data", 1, 0x10, 2})...),
		"relay-close":    relay(with(linked, do{"begin", 0, 0, 0}, do{"end", 0, 1, 0}, do{"create", 0, 0, optCC}, do{"conflux-link", 0, 1, 0})...),
		"relay-at-once": relay(do{"create", 0, 0, optCC}, do{"create", 5, 0, optCC}, do{"+resolve", 0, 0, 0}, do{"+begin", 0, 1, hostPause}, do{"+conflux-link", 0, 0, 0}, do{"conflux-link", 1, 0, 0},
			do{"+conflux-ack", 0, 0, 0}, do{"begin", 0, 0, 0}, do{"end", 1, 1, 0}),
		"relay-resolves": relay(do{"create", 0, 0, optCC}, do{"resolve", 0, 0, 6 << 3}, do{"resolve", 0, 1, 1}, do{"resolve", 0, 2, 0}, do{"conflux-link", 0, 2, 0}, do{"end", 1, 0, 0}),
		// An attack that once worked: the answer to CONFLUX_LINK cannot be sent.
		"attack-unsent-answer": relay(do{"create", 0, 0, optCC}, do{"+resolve", 0, 0, 0}, do{"+begin", 0, 1, hostPause}, do{"+conflux-link", 0, 2, 0}, do{"end", 1, 0, 0}),
		// Another: a stream is accepted while its circuit closes.
		"attack-late-stream": relay(do{"create", 0, 0, optCC}, do{"create", 5, 0, optCC}, do{"+resolve", 0, 0, 0}, do{"+begin", 0, 1, hostPause}, do{"+conflux-link", 0, 0, 0xb4},
			do{"conflux-link", 1, 0, 0}, do{"+conflux-ack", 0, 0, 0}, do{"begin", 0, 0, 0}, do{"end", 1, 1, 0}),
		"relay-lost-leg": relay(with(linked, do{"begin", 0, 0, 0}, do{"end", 1, 1, 0}, do{"data", 0, 0x10, 2}, do{"conflux-switch", 0, 3, 0}, do{"data", 0, 0x10, 2})...),
		"relay-two-sets": relay(with(linked, do{"create", 2, 0, optCC | optCGO}, do{"create", 3, 0, optCC}, do{"conflux-link", 2, 1, 2}, do{"conflux-link", 3, 1, 2}, do{"begin", 2, 1, 0}, do{"data", 2, 0x11, 1})...),
		// Attacks on C tor: a circuit that is something else as well as a leg, and numbers that are
		// not true.
		"attack-link-of-rendezvous": relay(do{"create", 8, 0, optCC}, do{"establish-rendezvous", 0, 1, 0}, do{"create", 9, 0, optCC}, do{"rendezvous", 1, 1, 0},
			do{"conflux-link", 0, 0, 0xf8}, do{"create", 2, 0, optCC}, do{"conflux-link", 2, 0, 0xf8}, do{"conflux-switch", 2, 3, 0}, do{"junk", 1, 0, 2}),
		"attack-link-of-intro":      relay(do{"create", 0, 0, optCC}, do{"establish-intro", 0, 1, 0}, do{"conflux-link", 0, 0, 0}, do{"create", 9, 0, optCC}, do{"introduce", 1, 1, 0}),
		"attack-leg-to-rendezvous":  relay(with(linked, do{"establish-rendezvous", 1, 1, 0}, do{"create", 10, 0, optCC}, do{"rendezvous", 2, 1, 0}, do{"begin", 0, 0, 0}, do{"junk", 2, 0, 3}, do{"end", 0, 1, 0})...),
		"attack-pending-rendezvous": relay(do{"create", 0, 0, optCC}, do{"create", 5, 0, optCC}, do{"+conflux-link", 0, 0, 0}, do{"+establish-rendezvous", 0, 1, 0}, do{"conflux-link", 1, 0, 0}, do{"rendezvous", 1, 1, 0}),
		"attack-leg-to-intro":       relay(with(linked, do{"establish-intro", 0, 1, 0}, do{"begin", 1, 0, 0})...),
		"attack-leg-extends":        relay(with(linked, do{"begin", 0, 0, 0}, do{"extend", 1, 0, 0x20}, do{"data", 0x11, 0x10, 2}, do{"truncate", 1, 0, 0}, do{"data", 0, 0x10, 2})...),
		"attack-link-after-begin":   relay(do{"create", 0, 0, optCC}, do{"+begin", 0, 0, 0}, do{"conflux-link", 0, 0, 0}, do{"create", 5, 0, optCC}, do{"conflux-link", 1, 0, 0}, do{"data", 1, 0x10, 2}, do{"end", 0, 0, 0}),
		"attack-forged-numbers": relay(with(linked, do{"begin", 0, 0, 0}, do{"data", 0, 0x10, 3}, do{"create", 2, 0, optCC}, do{"conflux-link", 2, 0, 0xc8}, do{"create", 3, 0, optCC}, do{"conflux-link", 3, 0, 0x08},
			do{"conflux-switch", 3, 5, 0}, do{"data", 3, 0x10, 3}, do{"conflux-switch", 3, 6, 0}, do{"data", 3, 0x10, 3})...),
		"attack-client-forged": client(do{"build", 0, 5, optCC}, do{"build", 1, 3, optCC}, do{"link-legs", 0, 1, 1}, do{"linked", 0x11, 0, 4}, do{"linked", 0x10, 0, 3<<3 | 4}, do{"dial", 0, 0, 0}),
		"client-download":      client(with(legs, do{"data", 0x11, 0x70, 9}, do{"conflux-switch", 0x10, 9, 0}, do{"data", 0x10, 0x70, 9}, do{"read", 0, 14, 0}, do{"stream-end", 0x10, 0, 6})...),
		"client-upload":        client(with(legs, do{"write", 0, 14, 0}, do{"sendme", 0x11, 0, 2}, do{"sendme", 0x10, 0, 2}, do{"write", 0, 14, 0}, do{"xon", 0x11, 0, 1}, do{"close-stream", 0, 0, 6})...),
		"client-close":         client(with(legs, do{"data", 0x11, 0x70, 2}, do{"end", 2, 0, 1}, do{"read", 0, 2, 0})...),
		"client-lost-leg":      client(with(legs, do{"truncated", 0x10, 0, 1}, do{"data", 0x11, 0x10, 2}, do{"write", 0, 2, 0}, do{"conflux-switch", 0x11, 3, 0}, do{"data", 0x11, 0x10, 2})...),
		"client-deaf":          client(with(legs, do{"deaf", 0x10, 0, 0}, do{"write", 0, 17, 0}, do{"deaf", 0x10, 1, 0}, do{"end", 0, 0, 0})...),
	}
}
