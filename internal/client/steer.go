package client

import (
	"context"
	"encoding/hex"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/geoip"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
)

// maxSteered bounds the circuits that controllers had built and that are there.
const maxSteered = 64

// maxSteeredHops bounds their length: clients may send eight RELAY_EARLY cells.
const maxSteeredHops = 8

// Errors of NewCircuit.
var (
	ErrManyCircuits = fault.New(fault.Resource, "controllers have as many circuits as they may have")
	ErrNoRelay      = fault.New(fault.Directory, "no such relay")
	ErrNoDescriptor = fault.New(fault.Directory, "the relay has no descriptor here")
	// ErrNotExtensible is the error for a circuit that was used: relays extend by RELAY_EARLY cells alone, of which it has a few.
	ErrNotExtensible = fault.New(fault.Resource, "the circuit has used its RELAY_EARLY cells")
	ErrLongPath      = fault.New(fault.Config, "the path is too long, or names a relay twice in a row")
)

// NewCircuit begins to build a circuit for controllers, over relays that they name, the nearest first, or, if
// there are none, over a path to an exit as for other streams. It returns the circuit's number.
func (c *Client) NewCircuit(relays []netdir.Relay, purpose Purpose) (uint64, error) {
	p, err := c.steeredPath(relays)
	if err != nil {
		return 0, err
	}
	id := c.ids.Add(1)
	orders := make(chan addition, maxSteeredHops)
	begun := make(chan error, 1) // the circuit has its number, or will never have one
	err = c.steer(func() {
		err := errClosed // also if it panics
		defer func() {
			select {
			case begun <- err:
			default: // it had begun: whoever watches was told
			}
		}()
		circ, err := c.buildSteered(p, order{purpose: purpose, id: id, begun: func(l *circuitLife) {
			l.follows(orders)
			begun <- nil
		}})
		if err == nil {
			c.follow(circ, orders)
		}
	})
	if err == nil {
		err = <-begun
	}
	if err != nil {
		return 0, err
	}
	return id, nil
}

// steeredPath makes a path of relays. The first is no guard, as in C tor: the controller has chosen.
func (c *Client) steeredPath(relays []netdir.Relay) (*path.Path, error) {
	if c.pool.Load() == nil {
		return nil, fault.New(fault.Directory, "there is no usable directory yet")
	}
	if len(relays) > maxSteeredHops {
		return nil, ErrLongPath
	}
	p := &path.Path{}
	for _, r := range relays {
		if c.live.Load().Path.Exclude.Has(r) {
			return nil, fault.New(fault.Refused, "the relay is one of ExcludeNodes")
		}
		p.Hops = append(p.Hops, path.Hop{Target: r.Target(), Relay: r})
	}
	if !inTurn(p.Hops) {
		return nil, ErrLongPath
	}
	return p, nil
}

func (c *Client) buildSteered(p *path.Path, o order) (*OpenCircuit, error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	o.keep = func(circ *OpenCircuit) error { return c.pool.Load().Adopt(circ) }
	if len(p.Hops) > 0 {
		return c.buildOver(ctx, p, &pool.Spec{}, o)
	}
	spec := pool.Spec{Spec: path.Spec{Dests: []path.Dest{{Port: 443}}}}
	return c.buildFor(ctx, spec, o)
}

// run runs f on a goroutine that Close waits for.
func (v *lives) run(c *Client, f func()) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		return errClosed
	}
	c.wg.Go(panics.Contain(c.log, nil, f))
	return nil
}

// end has run begin nothing any more.
func (v *lives) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = true
}

// SetPurpose changes what a circuit is for. Streams that no controller attaches do not get it if it is for
// controllers; if it is for streams, circuits that controllers had built do not get them either.
func (c *Client) SetPurpose(circuit uint64, p Purpose) error {
	l := c.lives.circuit(circuit)
	if l == nil {
		return ErrUnknown
	}
	if now := l.report().Purpose; now != ForStreams && now != ForController {
		return ErrNotForThese
	}
	l.purpose(p)
	// Only now: the pool asks for the purpose when it takes a new circuit, or has the circuit already.
	if circ := l.open(); circ != nil && p == ForController {
		_ = c.pool.Load().Steer(circ) // if the pool has it: else it asks for the purpose, or never gives it to streams
	}
	return nil
}

// Directory returns the newest directory; nil: there is none.
func (c *Client) Directory() *netdir.Directory { return c.dirs.Directory() }

// ConsensusText returns the text of the newest consensus, line by line, or an error if it is not kept.
func (c *Client) ConsensusText() (iter.Seq[string], error) { return c.dirs.ConsensusText() }

// MicrodescText returns the texts of microdescriptors that want names by their digests.
func (c *Client) MicrodescText(want map[[32]byte]bool) iter.Seq[string] {
	return c.dirs.MicrodescText(want)
}

// Links returns the open links to relays.
func (c *Client) Links() []channel.LinkReport {
	out := c.chans.Links()
	slices.SortFunc(out, func(a, b channel.LinkReport) int { return int(a.ID) - int(b.ID) })
	return out
}

// FindRelay returns the relay that a controller names: "$FINGERPRINT", with or without the "$", and
// with "~NICKNAME" or "=NICKNAME", or a nickname.
func (c *Client) FindRelay(name string) (netdir.Relay, error) {
	d := c.dirs.Directory()
	if d == nil {
		return netdir.Relay{}, ErrNoRelay
	}
	return FindRelay(d, name)
}

// FindRelay is Client.FindRelay in a directory.
func FindRelay(d *netdir.Directory, name string) (netdir.Relay, error) {
	digits, _, _ := strings.Cut(strings.TrimPrefix(name, "$"), "~")
	digits, _, _ = strings.Cut(digits, "=")
	if _, err := hex.DecodeString(digits); err == nil && len(digits) == 40 {
		id, err := ident.ParseRSAID(digits)
		if err != nil {
			return netdir.Relay{}, ErrNoRelay
		}
		if r, ok := d.Lookup(id); ok {
			return r, nil
		}
		return netdir.Relay{}, ErrNoRelay
	}
	for r := range d.All() {
		if strings.EqualFold(r.Nickname(), name) {
			return r, nil
		}
	}
	return netdir.Relay{}, ErrNoRelay
}

// NameOf returns a relay with its nickname, if the directory lists it.
func (c *Client) NameOf(id ident.RSAID) Router { return c.router(id) }

func (c *Client) router(id ident.RSAID) Router {
	out := Router{ID: id}
	if d := c.dirs.Directory(); d != nil {
		if r, ok := d.Lookup(id); ok {
			out.Name = r.Nickname()
		}
	}
	return out
}

// DropGuards forgets all guards, and has new circuits use others.
func (c *Client) DropGuards() {
	c.guards.Drop(time.Now())
	c.newCircuits()
}

// DropTimeouts forgets what was learned of the times that circuits take.
func (c *Client) DropTimeouts() {
	var s cbt.Status
	c.times.use(func(e *cbt.Estimator) {
		e.Forget()
		s = e.Status()
	})
	c.watch.buildTime(s, true)
}

// BuildTimes returns what was learned of the times that circuits take.
func (c *Client) BuildTimes() (s cbt.Status) {
	c.times.use(func(e *cbt.Estimator) { s = e.Status() })
	return s
}

// learn has the estimator learn, and tells who watches if other timeouts come of it.
func (c *Client) learn(how func(*cbt.Estimator)) {
	var before, after cbt.Status
	c.times.use(func(e *cbt.Estimator) {
		before = e.Status()
		how(e)
		after = e.Status()
	})
	if before.Usage != after.Usage || before.Close != after.Close {
		c.watch.buildTime(after, after.Observations < before.Observations)
	}
}

// Memory returns how many bytes others make the client hold, and the bound.
func (c *Client) Memory() (held, bound int64) { return c.memory.Used(), c.memory.Bound() }

// CountryTable returns the table of countries that choices of relays use, if it was read.
func (c *Client) CountryTable() *geoip.Table {
	l := c.live.Load()
	if l.Path.Countries != nil {
		return l.Path.Countries
	}
	return l.Countries.read()
}
