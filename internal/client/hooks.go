package client

import (
	"time"

	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/ident"
)

// State is where a circuit or a stream is in its life.
type State uint8

// The states.
const (
	Opening State = iota
	Open
	Failed
	Closed
)

// CircuitInfo follows one circuit.
type CircuitInfo struct {
	ID      uint64
	State   State
	Purpose Purpose
	Hops    int             // finished
	Took    []time.Duration // since the start, of each finished hop
	// Protection is what protects each hop, once the circuit is Open.
	Protection []HopProtection
	// Path and Names are the relays' fingerprints and nicknames, once it is Open.
	Path  []ident.RSAID
	Names []string
	Err   error
}

// StreamInfo follows one stream. It does not name the destination.
type StreamInfo struct {
	ID, Circuit   uint64
	State         State
	Read, Written uint64 // bytes, when closed
	Err           error
}

// Bootstrap is how far the client has come.
type Bootstrap struct {
	Percent int
	Stage   string
	Ready   bool
	Problem string
}

// Hooks are called with what happens, from many goroutines; they must not block. Bootstrap
// is called under a lock, so that it hears the changes in their order.
// Any may be nil.
type Hooks struct {
	Circuit   func(CircuitInfo)
	Stream    func(StreamInfo)
	Bootstrap func(Bootstrap)
}

func (h *Hooks) circuit(i CircuitInfo) {
	if h.Circuit != nil {
		h.Circuit(i)
	}
}

func (h *Hooks) stream(i StreamInfo) {
	if h.Stream != nil {
		h.Stream(i)
	}
}

// dirProgress turns the directory's progress into percent.
func (c *Client) dirProgress(p dirclient.Progress) {
	switch p.Phase {
	case dirclient.PhaseConsensus:
		if c.Dormant() { // Wake tells of it
			return
		}
		c.bootProgress(10, p.Phase.String())
	case dirclient.PhaseMicrodescs:
		pct := 25
		if p.Total > 0 {
			pct += 50 * p.Done / p.Total
		}
		c.bootProgress(pct, p.Phase.String())
	case dirclient.PhaseDone:
		c.bootProgress(78, p.Phase.String())
	}
}

// bootProgress never goes back.
func (c *Client) bootProgress(percent int, stage string) {
	c.changeBoot(func(b *Bootstrap) bool {
		if percent < b.Percent {
			return false
		}
		*b = Bootstrap{Percent: percent, Stage: stage, Ready: percent == 100}
		return true
	})
}

// problem notes why it does not come further.
func (c *Client) problem(err error) {
	c.changeBoot(func(b *Bootstrap) bool {
		if !b.Ready {
			b.Problem = err.Error()
		}
		return !b.Ready
	})
}

// changeBoot has change change how far the client has come; when it says that it did,
// the hook hears of it, in the order of the changes.
func (c *Client) changeBoot(change func(*Bootstrap) bool) {
	c.told.after(func() bool { return c.boot.change(change) }, c.Bootstrap, c.tell)
}

// tell tells the log and the hook how far the client has come.
func (c *Client) tell(was, now Bootstrap) {
	c.warn(was, now)
	if c.cfg.Hooks.Bootstrap != nil {
		c.cfg.Hooks.Bootstrap(now)
	}
}

// watchReady has the hook hear when the directory expires or no relay answers, and
// when this is over.
func (c *Client) watchReady() { c.told.look(c.Bootstrap, c.tell) }

// warn logs, once each, that traffic cannot flow any more, and that it can again.
func (c *Client) warn(was, now Bootstrap) {
	switch {
	case now.Percent < 100 || was.Percent < 100 || now.Ready == was.Ready:
	case now.Ready:
		c.log.Info("ready again")
	default:
		c.log.Warn("not ready any more", "problem", now.Problem)
	}
}

// Bootstrap returns how far the client has come.
func (c *Client) Bootstrap() Bootstrap {
	b := c.boot.get()
	if d := c.dirs.Directory(); b.Ready && (d == nil || !c.dirs.Ready(d, time.Now())) {
		b.Ready, b.Stage, b.Problem = false, "waiting for a newer directory", "the directory has expired"
	}
	// As long as a link is open, others may fail for reasons of their own.
	if err := c.reach.problem(c.bridge != nil, c.cfg.Upstream != nil); err != nil && b.Problem == "" && len(c.chans.Channels()) == 0 {
		if b.Ready {
			b.Stage = "waiting for a relay that answers"
		}
		b.Ready, b.Problem = false, err.Error()
	}
	return b
}

// StreamStatus is an open stream. It does not name the destination.
type StreamStatus struct {
	ID, Circuit   uint64
	Opened        time.Time
	Read, Written uint64 // bytes
}

// Status is a snapshot of a client.
type Status struct {
	Started                                          time.Time
	Bootstrap                                        Bootstrap
	ValidAfter, FreshUntil, ValidUntil               time.Time
	Relays, Usable                                   int
	Guards                                           guard.Status
	Bridges                                          []BridgeInfo
	Channels, Circuits, Building, Streams            int
	Open                                             []CircuitStatus // the oldest first
	Carried                                          []StreamStatus  // open streams, the oldest first
	Read, Written                                    uint64
	CellsIn, CellsOut, BytesIn, BytesOut, RecordsOut uint64
}

// Lists reports whether the directory has a relay, with its microdescriptor:
// circuits can have it.
func (c *Client) Lists(id ident.RSAID) bool {
	d := c.dirs.Directory()
	if d == nil {
		return false
	}
	r, ok := d.Lookup(id)
	return ok && r.HasMicrodesc()
}

// Status returns a snapshot.
func (c *Client) Status() Status {
	s := Status{
		Started: c.started, Bootstrap: c.Bootstrap(), Guards: c.guards.Status(time.Now()),
		Channels: len(c.chans.Channels()), Circuits: int(c.circs.count()), Building: int(c.making.Load()),
		Streams: int(c.streams.Load()),
		CellsIn: c.stats.CellsIn.Load(), CellsOut: c.stats.CellsOut.Load(),
		BytesIn: c.stats.BytesIn.Load(), BytesOut: c.stats.BytesOut.Load(), RecordsOut: c.stats.RecordsOut.Load(),
	}
	s.Open = c.circuits()
	s.Carried = c.streamStatuses()
	s.Read, s.Written = c.bytes()
	s.Bridges = c.bridge.status()
	if d := c.dirs.Directory(); d != nil {
		s.ValidAfter, s.FreshUntil, s.ValidUntil = d.ValidAfter(), d.FreshUntil(), d.ValidUntil()
		s.Relays = d.Len()
		s.Usable = d.Len() - len(d.MissingMicrodescs())
	}
	return s
}
