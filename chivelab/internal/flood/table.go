package flood

import (
	"context"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// role is the kind of victim that a flood needs.
type role uint8

const (
	relay     role = iota // a relay, which is an exit too
	authority             // a directory authority
)

// flood is one kind of attack: a row of the table and a function.
type flood struct {
	name string
	what string // description
	on   role
	// The budget: connections at the same time, and events (Counts.Sent) per
	// second, over all connections.
	conns, rate int
	run         func(ctx context.Context, a *attack) error
}

// floods lists all floods of the bench.
var floods = []flood{
	{"create-fast", "CREATE_FAST cells, answers not read", relay, 20, 20_000, createFast},
	{"create-ntor", "ntor onionskins, answers not read", relay, 20, 5_000, createNtor},
	{"churn", "circuits made and destroyed at once", relay, 20, 5_000, churn},
	{"tls-silent", "connections that say nothing", relay, 2_000, 1, tlsSilent},
	{"tls-hello", "connections that say ClientHello and no more", relay, 1_000, 1, tlsHello},
	{"tls-slow", "ClientHellos byte by byte", relay, 1_000, 10_000, tlsSlow},
	{"key-update", "TLS KeyUpdates that ask for one, answers not read", relay, 20, 20_000, keyUpdates},
	{"var-cells", "cells of 65,535 bytes that lack their last", relay, 1_000, 5_000, varCells},
	{"dir-streams", "directory streams opened without end", relay, 20, 5_000, dirStreams},
	{"dir-unread", "directory answers over circuits, not read", relay, 40, 2_000, dirUnread},
	{"extend-hole", "circuits extended to where nobody answers", relay, 20, 500, extendHole},
	{"extend-many", "the same, with many addresses in each", relay, 20, 500, extendMany},
	{"unread", "downloads through the relay, not read", relay, 20, 1_000, unread},
	{"conflux-gap", "conflux sets with data on the leg that is ahead, and none on the other", relay, 10, 10_000, confluxGap},
	{"auth-unread", "directory answers over the DirPort, not read", authority, 500, 1_000, authUnread},
	{"auth-announce", "uploads announced and not sent", authority, 1_000, 1_000, authAnnounce},
	{"auth-slow", "uploads sent byte by byte", authority, 1_000, 10_000, authSlow},
	{"auth-create", "CREATE_FAST cells to an authority, answers not read", authority, 20, 20_000, createFast},
	{"auth-streams", "directory streams to an authority, answers not read", authority, 40, 2_000, dirUnread},
}

// find returns the row of a flood.
func find(name string) (*flood, error) {
	for i := range floods {
		if floods[i].name == name {
			return &floods[i], nil
		}
	}
	return nil, fault.New(fault.Config, "no flood %q: there are %s", name, strings.Join(Names(), ", "))
}

// Names returns the names of the floods, in the table's order.
func Names() []string {
	var out []string
	for _, f := range floods {
		out = append(out, f.name)
	}
	return out
}
