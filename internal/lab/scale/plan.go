// Package scale measures what a relay of the public network's size costs: thousands of links from many addresses, a
// hundred thousand circuits at rest. It loads a relay of Chive's and one of C tor's by turns, in one network and one run.
package scale

import (
	"io"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Plan says what to measure.
type Plan struct {
	Links    int           // that clients open to the relay
	Circuits int           // of one hop (CREATE_FAST), on all links together
	Idle     time.Duration // how long the relay is watched when nobody does anything
	Settle   time.Duration // how long it rests before a figure is taken
	Active   ActivePlan

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
	perAddress  = 8 // links
	setupTime   = 30 * time.Second
	atATime     = 16 // handshakes under way
)

// Check returns an error for a plan that cannot run.
func (p *Plan) Check() error {
	switch {
	case p.Links < 1 || p.Links > maxLinks:
		return fault.New(fault.Config, "links: 1 to %d are possible, not %d", maxLinks, p.Links)
	case p.Circuits < 0 || p.Circuits > maxCircuits:
		return fault.New(fault.Config, "circuits: 0 to %d are possible, not %d", maxCircuits, p.Circuits)
	case p.Idle < time.Second, p.Settle < time.Second:
		return fault.New(fault.Config, "the relay must be watched for a second at least, and rest for one before")
	}
	return p.Active.check()
}
