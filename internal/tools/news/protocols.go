package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/protover"
)

// declined are versions of subprotocols that Chive leaves out on purpose.
const declined = "HSRend=1 Link=3" // rendezvous with version 2 onion services; links whose circuit numbers have 16 bits

// protocolLists returns the lists of subprotocol versions in a program: what it supports
// itself, and what its authorities vote for. It leaves out what C tor assumes of relays that
// are too old to advertise anything: these lists have version 1 of Link.
func protocolLists(constants []string) (supported protover.Set, voted []protover.Set, err error) {
	for _, s := range constants {
		if !strings.Contains(s, "Link=") || !strings.Contains(s, "Microdesc=") {
			continue
		}
		set, err := protover.Parse(s)
		switch {
		case err != nil || set.Has(protover.Link, 1):
		case set.Versions(protover.Conflux) == "":
			voted = append(voted, set)
		case !supported.IsZero():
			return supported, nil, fmt.Errorf("two lists of the program could be the versions that it supports")
		default:
			supported = set
		}
	}
	if supported.IsZero() || len(voted) == 0 {
		return supported, nil, fmt.Errorf("the program has no list of the versions that it supports, or none that its authorities vote for")
	}
	return supported, voted, nil
}

// protocolNews compares subprotocol versions: with those that Chive supports, and with the
// lists for which its authorities vote.
func protocolNews(constants []string) (lines []string, err error) {
	supported, voted, err := protocolLists(constants)
	if err != nil {
		return nil, err
	}
	parse := func(s string) (set protover.Set) {
		if err == nil {
			set, err = protover.Parse(s)
		}
		return set
	}
	known := parse(declined + " " + protover.All)
	var ours []protover.Set
	for _, s := range authority.VotedProtocols() {
		ours = append(ours, parse(s))
	}
	if err != nil {
		return nil, err
	}
	if m := known.Missing(supported); m != "" {
		lines = append(lines, "no role of Chive has "+m)
	}
	return append(lines, voteNews(voted, ours)...), nil
}

// voteNews compares the lists for which authorities vote. Two lists of a program may be one
// constant, so they have no names here.
func voteNews(theirs, ours []protover.Set) (lines []string) {
	lacks := func(in []protover.Set, s protover.Set) bool {
		return !slices.ContainsFunc(in, func(o protover.Set) bool { return o.String() == s.String() })
	}
	for _, s := range theirs {
		if lacks(ours, s) {
			lines = append(lines, "C tor's authorities vote for a list that Chive's do not have: "+s.String())
		}
	}
	for _, s := range ours {
		if lacks(theirs, s) {
			lines = append(lines, "Chive's authorities vote for a list that C tor's do not have: "+s.String())
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}
