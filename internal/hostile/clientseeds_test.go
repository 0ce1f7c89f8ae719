package hostile

import "github.com/chivenet/chive/internal/cell"

// clientSeeds are valid sequences of a client and the relays that it uses, by
// what they are about.
func clientSeeds() map[string]fuzzInput {
	s := func(all ...do) fuzzInput { return seed(clientOps, all...) }
	const guard, exit, middle = 0, 1, 2
	open := func(route, opts byte) []do {
		return []do{{"build", 0, route, opts}, {"dial", 0, 0, 0}, {"connected", 0, 0, 1}}
	}
	and := func(first []do, more ...do) fuzzInput { return s(append(first, more...)...) }
	return map[string]fuzzInput{
		"stream":     and(open(guard, optCC), do{"data", 0, 0x70, 6}, do{"read", 0, 6, 0}, do{"write", 0, 9, 0}, do{"sendme", 0, 0, 0}, do{"stream-end", 0, 0, 6}),
		"stream-cgo": and(open(guard, optCC|optCGO), do{"data", 0, 0x70, 9}, do{"read", 0, 9, 0}, do{"write", 0, 9, 0}, do{"sendme", 0, 0, 0}, do{"close-stream", 0, 0, 6}),
		"directory-cgo": s(do{"build", 0, guard, optCC | optCGO}, do{"dial", 0, 0, 2}, do{"connected", 0, 0, 0}, do{"data", 0, 0, 7}, do{"read", 0, 7, 0},
			do{"data", 0, 0, 7}, do{"read", 0, 7, 0}),
		"ntor":      and(open(guard, buildNtor), do{"data", 0, 0x70, 8}, do{"read", 0, 9, 0}, do{"stream-sendme", 0, 0, 0}, do{"close-stream", 0, 1, 0}, do{"wait", 2, 0, 0}),
		"fast":      and(open(guard, buildFast), do{"lookup", 0, 0, 0}, do{"resolved", 0, 0, 0}, do{"end", 3, 0, 0}),
		"exit":      and(open(exit, optCC), do{"data", 0, 0x70, 3}, do{"read", 0, 3, 0}, do{"write", 0, 3, 0}, do{"xon", 0, 0, 0x20}, do{"end", 2, 0, 0}),
		"exit-cgo":  and(open(exit, optCC|optCGO), do{"data", 0, 0x70, 10}, do{"read", 0, 10, 0}, do{"stream-end", 0, 0, 1}),
		"pq":        and(open(exit, optCC|buildPQ), do{"data", 0, 0x70, 3}, do{"read", 0, 3, 0}),
		"pq-middle": s(do{"build", 0, middle, buildPQ}, do{"extended", 0, 0, 0}, do{"dial", 0, 0, 0}, do{"connected", 0x20, 0, 0}),
		"middle": s(do{"build", 0, middle, optCC}, do{"extended", 0, 0, 0}, do{"dial", 0, 0, 0}, do{"connected", 0x20, 0, 0}, do{"data", 0x20, 0x70, 3},
			do{"read", 0, 3, 0}, do{"truncated", 0, 0, 8}),
		"rekey": s(do{"build", 0, guard, optCC | buildRekey}, do{"rekey-reply", 0, 0, 0}, do{"dial", 0, 0, 0}, do{"connected", 0, 0, 0}, do{"do-rekey", 0, 0, 0},
			do{"rekey-reply", 0, 0, 0}, do{"data", 0, 0x70, 2}, do{"read", 0, 2, 0}),
		"conflux": s(do{"build", 0, 5, optCC}, do{"build", 1, 3, optCC}, do{"link-legs", 0, 1, 1}, do{"linked", 0x10, 0, 0}, do{"linked", 0x11, 0, 0},
			do{"dial", 0, 0, 0}, do{"connected", 0x11, 0, 0}, do{"data", 0x11, 0x70, 3}, do{"conflux-switch", 0x10, 3, 0}, do{"data", 0x10, 0x70, 2}, do{"read", 0, 9, 0}, do{"end", 2, 0, 1}),
		// An attack that once worked.
		"attack-cgo-without-cc": s(do{"script", answerRight, 0, ansNoCC}, do{"build", 0, guard, optCC | optCGO}, do{"dial", 0, 0, 2}, do{"connected", 0, 0, 0},
			do{"data", 0, 0, 9}, do{"read", 0, 9, 0}),
		"late": s(do{"script", answerLate, 0, 0}, do{"build", 0, guard, optCC}, do{"wait", 3, 0, 0}, do{"answer-now", 0, 0, 0}, do{"lookup", 0, 0, 0}, do{"end", 0, 0, 0}),
		"extend": s(do{"build", 0, guard, optCC}, do{"do-extend", 0, 5, optCC}, do{"extended", 0, 0, 0}, do{"message", 0x20, byte(cell.RelayDrop), 0x26},
			do{"cell", 0, byte(cell.CmdPadding), 0}, do{"honest", 0, 0, 0}, do{"replay", 0, 7, 0}),
		"service": s(do{"build", 0, guard, optCC}, do{"ask", 0, 2, 0}, do{"message", 0, byte(cell.RelayIntroEstablished), 0x20}, do{"serve", 0, 2, 0},
			do{"message", 0, byte(cell.RelayIntroduce2), 0x10}, do{"message", 0, byte(cell.RelayIntroduce2), 0x50}, do{"serve", 0, 1, 0}, do{"message", 0, byte(cell.RelayIntroduce2), 0x10}),
		"meet": s(do{"build", 0, exit, optCC}, do{"ask", 0, 0, 1}, do{"message", 0, byte(cell.RelayRendezvousEstablished), 0x20}, do{"meet", 0, 1, 0},
			do{"message", 0, byte(cell.RelayRendezvous2), 0}, do{"virtual", 0, 3, 0}, do{"dial", 0, 0, 0}, do{"connected", 0x20, 0, 0}, do{"data", 0x20, 0x70, 6}, do{"read", 0, 6, 0},
			do{"message", 0, byte(cell.RelayRendezvous2), 0}),
		"unasked":       s(do{"build", 0, guard, optCC}, do{"message", 0, byte(cell.RelayRendezvousEstablished), 0x20}),
		"unasked-meet":  s(do{"build", 0, guard, optCC}, do{"message", 0, byte(cell.RelayRendezvous2), 0}),
		"established-2": s(do{"build", 0, guard, optCC}, do{"ask", 0, 0, 3}, do{"message", 0, byte(cell.RelayRendezvousEstablished), 0x20}, do{"message", 0, byte(cell.RelayRendezvousEstablished), 0x20}),
		"hosted": s(do{"build", 0, guard, optCC}, do{"virtual", 0, 4, 0}, do{"begin", 0x20, 0, 0}, do{"data", 0x20, 0x70, 6}, do{"begin", 0x20, 1, 1}, do{"begin", 0x20, 2, 0x60},
			do{"begin", 0, 1, 0}, do{"end", 2, 0, 0}),
		"hosted-service": s(do{"build", 0, guard, optCC}, do{"virtual", 0, 1, 0}, do{"dial", 0, 0, 0}, do{"connected", 0x20, 0, 0}, do{"data", 0x20, 0x70, 6}, do{"sendme", 0x20, 0, 0}, do{"begin", 0x20, 0, 0}),
		"hosted-cgo": s(do{"build", 0, guard, optCC}, do{"virtual", 0, 28, 0}, do{"begin", 0x20, 0, 0}, do{"data", 0x20, 0x70, 6}, do{"begin", 0x20, 1, 1}, do{"begin", 0x20, 2, 0x60},
			do{"begin", 0, 1, 0}, do{"end", 2, 0, 0}),
		"hosted-other-layer": s(do{"build", 0, guard, optCC}, do{"virtual", 0, 12, 0}, do{"begin", 0x20, 0, 0}, do{"data", 0x20, 0x70, 6}, do{"begin", 0x20, 1, 1}, do{"begin", 0x20, 2, 0x60},
			do{"begin", 0, 1, 0}, do{"end", 2, 0, 0}),
		"hosted-service-cgo": s(do{"build", 0, guard, optCC}, do{"virtual", 0, 29, 0}, do{"dial", 0, 0, 0}, do{"connected", 0x20, 0, 0}, do{"data", 0x20, 0x70, 6}, do{"sendme", 0x20, 0, 0}, do{"begin", 0x20, 0, 0}),
		"padding": s(do{"build", 0, 4, optCC}, do{"pad", 0, 0, 0}, do{"padded", 0x10, 0x10, 0}, do{"drop", 0x10, 0, 0}, do{"pad", 0, 1, 0}, do{"padded", 0x10, 0x04, 0}, do{"drop", 0x10, 0, 4},
			do{"padded", 0x10, 0x05, 0}, do{"drop", 0x10, 0, 12}, do{"padded", 0x10, 0x04, 1}),
		"mangled": and(open(guard, optCC), do{"mangle", mangleHold, 0, 0}, do{"data", 0, 0x10, 2}, do{"data", 0, 0x10, 2}, do{"deaf", 0, 0, 0}, do{"write", 0, 14, 0}, do{"deaf", 0, 1, 0},
			do{"script-2", answerTwice, 0, 0}, do{"end", 1, 0, 0}),
	}
}
