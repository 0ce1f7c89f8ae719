package hostile

import "github.com/chivenet/chive/internal/cell"

// hostPause is the argument of begin that has the relay's reader stand still.
const hostPause = 9

// relaySeeds are valid sequences, which mutations lead astray, by what they are
// about.
func relaySeeds() map[string]fuzzInput {
	s := func(all ...do) fuzzInput { return seed(relayOps, all...) }
	const echo, http = 0, 1
	return map[string]fuzzInput{
		"stream": s(do{"create", 0, 0, optCC}, do{"begin", 0, 0, echo}, do{"data", 0, 0x70, 9}, do{"sendme", 0, 0, 0},
			do{"stream-end", 0, 0, 6}, do{"end", 0, 0, 0}),
		"stream-cgo": s(do{"create", 0, 0, optCC | optCGO}, do{"begin", 0, 0, echo}, do{"data", 0, 0x70, 9}, do{"sendme", 0, 0, 0},
			do{"stream-end", 0, 0, 6}, do{"end", 0, 0, 0}),
		"directory-cgo": s(do{"create", 0, 0, optCC | optCGO}, do{"begin-dir", 0, 0, 0}, do{"data", 0, 0, 7}, do{"data", 0, 0, 7}),
		"directory":     s(do{"create", 0, 0, optCC}, do{"begin-dir", 0, 0, http}, do{"data", 0, 0, 0}, do{"wait", 10, 0, 0}),
		"ntor": s(do{"create", 0, 1, 0}, do{"begin", 0, 0, echo}, do{"data", 0, 0x10, 13}, do{"stream-sendme", 0, 0, 0},
			do{"sendme", 0, 0, 0}, do{"stream-end", 0, 0, 6}),
		"fast": s(do{"create", 0, 2, 0}, do{"resolve", 0, 0, 0}, do{"begin", 0, 1, http}, do{"xon", 0, 1, 0}, do{"end", 0, 0, 0}),
		"pq":   s(do{"create", 0, 3, optCC | optCGO}, do{"begin", 0, 0, echo}, do{"data", 0, 0x10, 3}, do{"extend", 0, 0, 0x23}),
		"links": s(do{"link", 0, 0, 0}, do{"link", 2, 0, 0}, do{"create", 0, 0, optCC}, do{"create", 9, 0, optCC}, do{"begin", 0, 0, echo},
			do{"begin", 1, 0, echo}, do{"deaf", 0, 0, 0}, do{"data", 0, 0x70, 14}, do{"deaf", 0, 1, 0}, do{"end", 1, 2, 0}),
		"extend": s(do{"create", 0, 0, optCC}, do{"extend", 0, 0, 0x20}, do{"message", 0x10, byte(cell.RelayDrop), 2}, do{"next-message", 0, byte(cell.RelayDrop), 0},
			do{"truncate", 0, 0, 0}, do{"end", 0, 0, 0}),
		"extend-pq": s(do{"create", 0, 3, optCC}, do{"extend", 0, 0, 0x23}, do{"next-message", 0, byte(cell.RelayDrop), 0}, do{"end", 3, 0, 0}),
		"extend-two": s(do{"create", 0, 0, optCC}, do{"extend", 0, 0, 0x20}, do{"create", 1, 0, optCC}, do{"extend", 1, 0, 0x20},
			do{"create", 2, 0, optCC}, do{"extend", 2, 1, 0x20}, do{"end", 0, 1, 0}),
		"extend-same": s(do{"create", 0, 0, optCC}, do{"extend", 0, 0, 0x20}, do{"create", 0, 0, optCC}, do{"extend", 0, 0, 0x20}),
		"late":        s(do{"script", answerLate, 0, 0}, do{"create", 0, 0, optCC}, do{"extend", 0, 2, 0}, do{"wait", 4, 0, 0}, do{"answer-now", 0, 0, 0}, do{"data", 0x10, 0, 0}),
		"rekey": s(do{"create", 0, 0, optCC}, do{"rekey", 0, 0, 0}, do{"rekey-confirm", 0, 0, 0}, do{"begin", 0, 0, echo}, do{"data", 0, 0x10, 2},
			do{"rekey", 0, 1, 0}, do{"rekey-confirm", 0, 0, 0}),
		"conflux": s(do{"create", 0, 0, optCC}, do{"create", 5, 0, optCC}, do{"conflux-link", 0, 0, 0}, do{"conflux-link", 1, 0, 0}, do{"conflux-ack", 0, 0, 0},
			do{"conflux-ack", 1, 0, 0}, do{"begin", 0, 0, echo}, do{"data", 0, 0x10, 3}, do{"conflux-switch", 1, 4, 0}, do{"end", 0, 1, 0}),
		"lifecycle": s(do{"create", 0, 0, optCC}, do{"wait", 3, 0, 0}, do{"message", 0, byte(cell.RelayDrop), 2}, do{"early", 0, 0, 2}, do{"honest", 0, 0, 0}, do{"replay", 0, 7, 0}),
		"mangled":   s(do{"create", 0, 0, optCC}, do{"begin", 0, 0, echo}, do{"mangle", 0, 3, 1}, do{"data", 0, 0x10, 2}, do{"mangle", mangleHold, 0, 0}, do{"data", 0, 0x10, 2}, do{"data", 0, 0x10, 2}),
		"cells": s(do{"create", 0, 0, optCC}, do{"cell", 0, byte(cell.CmdPadding), 0}, do{"cell", 0, byte(cell.CmdPaddingNegotiate), 0x60}, do{"long", 0, 5, 0},
			do{"fragment", 0x20, 0, 0}, do{"next-cell", 0, 0, 0}, do{"cell", 0, byte(cell.CmdDestroy), 0}),
		// Attacks that once worked.
		"attack-cgo-without-cc": s(do{"create", 0, 0, optCGO}, do{"begin-dir", 0, 0, 0}, do{"data", 0, 0, 7}),
		"attack-addresses":      s(do{"create", 0, 0, optCC}, do{"extend", 0, 0x44, 1}, do{"wait", 8, 0, 0}),
		"attack-itself":         s(do{"create", 0, 0, optCC}, do{"extend", 0, 0x13, 0x20}, do{"create", 1, 0, optCC}, do{"extend", 1, 0x33, 0x20}, do{"create", 2, 0, optCC}, do{"extend", 2, 3, 0x20}),
		"attack-no-identity": s(do{"create", 0, 0, optCC}, do{"extend", 0, 0x10, 0x20}, do{"create", 1, 0, optCC}, do{"extend", 1, 0x10, 0x20},
			do{"create", 2, 0, optCC}, do{"extend", 2, 0x30, 0x20}),
		"introduction": s(do{"create", 0, 0, optCC}, do{"establish-intro", 0, 1, 0}, do{"create", 9, 0, optCC | optCGO}, do{"introduce", 1, 1, 0},
			do{"create", 10, 0, optCC}, do{"introduce", 2, 2, 0}, do{"extend", 2, 0, 0x20}, do{"create", 8, 0, 0}, do{"establish-intro", 0, 0x21, 3}, do{"end", 0, 0, 0}),
		"rendezvous": s(do{"create", 8, 0, optCC}, do{"establish-rendezvous", 0, 1, 0}, do{"create", 9, 0, optCC | optCGO}, do{"rendezvous", 1, 1, 0},
			do{"junk", 0, 0, 5}, do{"junk", 1, 0, 12}, do{"junk", 0, 1, 2}, do{"message", 1, byte(cell.RelayDrop), 2}, do{"begin", 0, 0, echo}, do{"data", 0, 0x10, 1}, do{"end", 0, 0, 0}),
		"rendezvous-one-link": s(do{"create", 0, 0, optCC | optCGO}, do{"establish-rendezvous", 0, 2, 0}, do{"create", 1, 1, 0}, do{"rendezvous", 1, 2, 4},
			do{"deaf", 0, 0, 0}, do{"junk", 0, 0, 17}, do{"junk", 1, 0, 17}, do{"deaf", 0, 1, 0}, do{"truncate", 0, 0, 0}, do{"end", 1, 0, 0}),
		"padding": s(do{"create", 0, 0, optCC}, do{"extend", 0, 0, 0x20}, do{"pad", 0, 0x08, 0}, do{"wait", 1, 0, 0}, do{"pad", 0, 0x12, 0}, do{"wait", 0, 0, 0},
			do{"pad", 0, 0x13, 0}, do{"pad", 0x10, 0x08, 0}, do{"end", 0, 0, 0}),
		"padding-flood": s(do{"create", 0, 0, optCC | optCGO}, do{"pad", 0, 0x02, 17}, do{"deaf", 0, 0, 0}, do{"pad", 0, 0x00, 17}, do{"wait", 1, 0, 0}, do{"deaf", 0, 1, 0},
			do{"pad", 0, 0x04, 13}, do{"pad", 0, 0x01, 3}),
		"padding-point": s(do{"create", 8, 0, optCC}, do{"establish-rendezvous", 0, 1, 0}, do{"create", 9, 0, optCC | optCGO}, do{"pad", 0, 0x0a, 0}, do{"rendezvous", 1, 1, 0},
			do{"pad", 1, 0x08, 0}, do{"wait", 1, 0, 0}, do{"end", 0, 1, 0}),
		"rendezvous-end": s(do{"create", 8, 0, optCC}, do{"establish-rendezvous", 0, 1, 0}, do{"create", 9, 0, optCC}, do{"meet-and-end", 0, 0x41, 1},
			do{"create", 8, 0, optCC}, do{"establish-rendezvous", 0, 2, 0}, do{"create", 9, 0, optCC}, do{"meet-and-end", 0, 0xc2, 1}),
		"garbage": s(do{"link", 1, 0, 0}, do{"garbage", 1, 2, 0}),
	}
}

// nextHopSeeds are valid extends, by what they are about.
func nextHopSeeds() map[string]fuzzInput {
	s := func(all ...do) fuzzInput { return seed(nextHopOps, all...) }
	drop := byte(cell.RelayDrop)
	return map[string]fuzzInput{
		"extend":      s(do{"script", answerRight, 0, 0}, do{"create", 0, 0, optCC}, do{"extend", 0, 0, 0x20}, do{"next-message", 0, drop, 0}, do{"message", 0x10, drop, 2}),
		"extend-cgo":  s(do{"script", answerRight, 0, 0}, do{"create", 0, 0, optCC | optCGO}, do{"extend", 0, 0, 0x60}, do{"next-message", 0, drop, 2}, do{"data", 0x10, 0x10, 1}),
		"extend-pq":   s(do{"script", answerRight, 0, 0}, do{"create", 0, 0, optCC}, do{"extend", 0, 0, 0x23}, do{"next-message", 0, drop, 0}),
		"extend-ntor": s(do{"script", answerRight, 0, 0}, do{"create", 0, 1, 0}, do{"extend", 0, 0, 1}, do{"truncate", 0, 0, 0}, do{"message", 0, drop, 2}),
		"three-hops":  s(do{"create", 0, 0, optCC}, do{"extend", 0, 0, 0x20}, do{"create", 1, 0, optCC}, do{"extend", 1, 1, 0x20}, do{"create", 6, 0, optCC}, do{"extend", 2, 2, 0x23}),
		"late":        s(do{"script", answerLate, 0, 0}, do{"create", 0, 0, optCC}, do{"extend", 0, 0, 0x20}, do{"wait", 4, 0, 0}, do{"answer-now", 0, 0, 0}, do{"data", 0x10, 0, 0}),
		"never":       s(do{"script", answerNever, 0, 0}, do{"create", 0, 0, optCC}, do{"extend", 0, 0, 0x23}, do{"wait", 8, 0, 0}, do{"truncate", 0, 0, 0}, do{"end", 0, 0, 0}),
		"rekey":       s(do{"create", 0, 3, optCC}, do{"extend", 0, 0, 0x23}, do{"rekey", 0, 0, 0}, do{"rekey-confirm", 0, 0, 0}, do{"next-message", 0, drop, 0}),
		"same-link":   s(do{"create", 0, 0, optCC}, do{"extend", 0, 0, 0x20}, do{"create", 0, 0, optCC}, do{"extend", 0, 0, 0x20}, do{"end", 2, 0, 0}),
		// Attacks that once worked.
		"attack-long-answer": s(do{"script", answerSized, 0, 0}, do{"create", 0, 0, optCC}, do{"extend", 0, 0, 0x23}),
		"attack-no-identity": s(do{"create", 0, 0, optCC}, do{"extend", 0, 0x10, 0x20}, do{"create", 0, 0, optCC}, do{"extend", 0, 0x10, 0x20}),
		"cells":              s(do{"create", 8, 0, optCC}, do{"extend", 0, 1, 0x20}, do{"extend", 1, 0, 0x20}, do{"next-cell", 0, 6, 0}, do{"honest", 0, 0, 0}, do{"end", 3, 0, 0}),
	}
}
