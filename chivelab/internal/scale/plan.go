// Package scale measures what a relay, a directory cache, an authority and a directory of onion services cost at the public network's
// size: thousands of links from many addresses, a hundred thousand circuits at rest, thousands of relays and descriptors. It loads those of
// Chive's and of C tor's by turns, in one run.
package scale

import (
	"io"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Plan says what to measure.
type Plan struct {
	Links      int           // that clients open to the relay
	Circuits   int           // of one hop (CREATE_FAST), on all links together
	Onions     int           // descriptors of onion services that are uploaded to each relay; 0: none
	Relays     int           // of the made-up network that an authority and a cache get; 0: neither is measured
	Hours      int           // how many earlier consensuses the cache has
	Bootstraps int           // bootstraps that the cache serves
	Hostile    int           // hostile askers for each hundred honest ones
	Idle       time.Duration // how long the relay is watched when nobody does anything
	Settle     time.Duration // how long it rests before a figure is taken
	Active     ActivePlan

	Program    string   // chive
	Tor        string   // "": tor in PATH
	RelayFlags []string // further flags of "chive relay"

	Progress func(string)
	Log      io.Writer // of Chive's relay; may be nil
}

// The most that one machine can open: each address of loopback has as many links as one client of a busy network.
const (
	maxLinks    = 15000
	maxCircuits = 1 << 20
	maxOnions   = 50_000
	maxRelays   = 50_000
	maxHours    = 72
	perAddress  = 8               // links
	setupTime   = 2 * time.Minute // of a machine that is busy with this
	atATime     = 16              // handshakes under way
	pollEvery   = 100 * time.Millisecond
)

// Check returns an error for a plan that cannot run.
func (p *Plan) Check() error {
	switch {
	case p.Links < 1 || p.Links > maxLinks:
		return fault.New(fault.Config, "links: 1 to %d are possible, not %d", maxLinks, p.Links)
	case p.Circuits < 0 || p.Circuits > maxCircuits:
		return fault.New(fault.Config, "circuits: 0 to %d are possible, not %d", maxCircuits, p.Circuits)
	case p.Onions < 0 || p.Onions > maxOnions:
		return fault.New(fault.Config, "descriptors of onion services: 0 to %d are possible, not %d", maxOnions, p.Onions)
	case p.Relays != 0 && (p.Relays < 20 || p.Relays > maxRelays):
		return fault.New(fault.Config, "relays: 20 to %d are possible, or 0 for no cache and no authority, not %d", maxRelays, p.Relays)
	case p.Hours < 0 || p.Hours > maxHours:
		return fault.New(fault.Config, "hours: 0 to %d are possible, not %d", maxHours, p.Hours)
	case p.Bootstraps < 0 || p.Bootstraps > maxLinks:
		return fault.New(fault.Config, "bootstraps: 0 to %d are possible, not %d", maxLinks, p.Bootstraps)
	case p.Hostile < 0 || p.Hostile > 100:
		return fault.New(fault.Config, "hostile askers: 0 to 100 for each hundred, not %d", p.Hostile)
	case p.Idle < time.Second, p.Settle < time.Second:
		return fault.New(fault.Config, "the relay must be watched for a second at least, and rest for one before")
	}
	return p.Active.check()
}
