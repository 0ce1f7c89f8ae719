package scale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/proc"
)

// ActivePlan says how to load a relay with circuits that all move bytes at once. Each leads through the relay to another
// one; those run in this process, as the clients do.
type ActivePlan struct {
	Circuits int           // 0: this is not measured
	Links    int           // of the clients
	Far      int           // relays to which the circuits lead, one link to each
	Window   int           // cells that are under way on each circuit
	WarmUp   time.Duration // before the circuits are compared
	Watch    time.Duration // how long they are
	Bulk     int           // circuits beside which a small request is made; they share a link with it
	Pings    int           // small requests
}

// DefaultActive is what the project's goals are about. Vegas keeps at least so many cells of a circuit in relays' queues
// (proposal 324, "cc_vegas_alpha_exit").
func DefaultActive() ActivePlan {
	return ActivePlan{Circuits: 2000, Links: 100, Far: 10, Window: 186, WarmUp: 5 * time.Second, Watch: 10 * time.Second, Bulk: 10, Pings: 300}
}

const maxActive = 20000

func (p *ActivePlan) check() error {
	switch {
	case p.Circuits == 0:
		return nil
	case p.Circuits < 0 || p.Circuits > maxActive:
		return fault.New(fault.Config, "active circuits: 0 to %d are possible, not %d", maxActive, p.Circuits)
	case p.Links < 1 || p.Links > p.Circuits:
		return fault.New(fault.Config, "links of active circuits: 1 to %d are possible, not %d", p.Circuits, p.Links)
	case p.Far < 1 || p.Far > 100:
		return fault.New(fault.Config, "relays to which active circuits lead: 1 to 100 are possible, not %d", p.Far)
	case p.WarmUp <= 0, p.Watch < 100*time.Millisecond:
		return fault.New(fault.Config, "active circuits need time to warm up, and must be watched for a tenth of a second at least")
	case p.Window < round || p.Window > 1000:
		return fault.New(fault.Config, "windows of active circuits: %d to 1000 cells are possible, not %d", round, p.Window)
	case p.Bulk < 0 || p.Pings < 1:
		return fault.New(fault.Config, "beside active circuits, there must be one small request at least")
	}
	return nil
}

// Shared is how circuits that want the same shared a relay.
type Shared struct {
	MBps   float64 // of all together
	Jain   float64 // (sum of shares)^2 / (n * sum of their squares): 1 is equal
	Spread float64 // the greatest share divided by the least
	Growth int64   // bytes by which the relay's RSS grew over what it was with the circuits at rest, at most
	CPU    float64 // processors that the relay used
	Load   float64 // processors that the load used, which the relay could not have
}

// perCPU is how many MB the relay moved for a second of a processor: the load and other work on the machine
// have little part in that.
func (s *Shared) perCPU() float64 { return s.MBps / s.CPU }

// Active is what one relay did with active circuits.
type Active struct {
	Down, Up Shared
	// Median and P99 are the round trip of a small request beside circuits that all receive, in milliseconds, and
	// BulkMBps is what these moved.
	Median, P99, BulkMBps float64
}

// actives loads all relays with active circuits, if the plan says so.
func (r *Report) actives(ctx context.Context, p *Plan, peers []peer) error {
	if p.Active.Circuits == 0 {
		return nil
	}
	far := make([]*farRelay, p.Active.Far)
	for i := range far {
		var err error
		if far[i], err = newFarRelay(); err != nil {
			return err
		}
		defer far[i].close()
	}
	for i, to := range peers {
		var err error
		if r.Relays[i].Active, err = active(ctx, p, to, far); err != nil {
			return fault.New(fault.Local, "%s: %w", to.name, err)
		}
	}
	return nil
}

// active loads one relay with active circuits.
func active(ctx context.Context, p *Plan, to peer, far []*farRelay) (a Active, err error) {
	p.Progress(fmt.Sprintf("%s: %d circuits through it", to.name, p.Active.Circuits))
	l, err := openActive(ctx, to, p.Active.Links)
	defer l.close()
	if err != nil {
		return a, err
	}
	paths, err := l.paths(ctx, far, p.Active.Circuits)
	if err != nil {
		return a, err
	}
	if err := pause(ctx, p.Settle); err != nil {
		return a, err
	}
	rest, err := proc.Of(to.pid)
	if err != nil {
		return a, err
	}
	for _, way := range []struct {
		name string
		end  int
		to   *Shared
	}{{"down", nearEnd, &a.Down}, {"up", farEnd, &a.Up}} {
		p.Progress(fmt.Sprintf("%s: all circuits move cells %s", to.name, way.name))
		f := startFlows(paths, way.end, p.Active.Window)
		if *way.to, err = f.watch(ctx, to, &p.Active, rest.RSS); err != nil {
			return a, err
		}
		if err := f.stop(ctx); err != nil {
			return a, err
		}
		if n := f.lost(); n > 0 {
			return a, errors.Join(fault.New(fault.Network, "%d of %d active circuits have closed", n, len(paths)), l.err())
		}
	}
	return a, beside(ctx, p, to, far, &a)
}

// beside measures a small request beside some circuits that all receive, on one link.
func beside(ctx context.Context, p *Plan, to peer, far []*farRelay, a *Active) error {
	p.Progress(fmt.Sprintf("%s: a small request beside %d circuits", to.name, p.Active.Bulk))
	l, err := openActive(ctx, to, 1)
	defer l.close()
	if err != nil {
		return err
	}
	paths, err := l.paths(ctx, far[:1], p.Active.Bulk+1)
	if err != nil {
		return err
	}
	f := startFlows(paths[1:], nearEnd, p.Active.Window)
	if err := pause(ctx, p.Active.WarmUp); err != nil {
		return err
	}
	before, began := total(f.counts()), time.Now()
	took, err := ping(ctx, paths[0], p.Active.Pings, 10*time.Millisecond)
	if err != nil {
		return err
	}
	a.BulkMBps = float64(total(f.counts())-before) * cell.Len / 1e6 / time.Since(began).Seconds()
	slices.Sort(took)
	ms := func(q float64) float64 { return took[min(len(took)-1, int(q*float64(len(took))))].Seconds() * 1000 }
	a.Median, a.P99 = ms(0.5), ms(0.99)
	return f.stop(ctx)
}

func total(all []int64) (sum int64) {
	for _, n := range all {
		sum += n
	}
	return sum
}

// activeRows are the lines of the table about active circuits.
func (r *Report) activeRows() (rows []line) {
	if r.Active.Circuits == 0 {
		return nil
	}
	for _, way := range []struct {
		name string
		of   func(*Measured) *Shared
	}{
		{"down", func(m *Measured) *Shared { return &m.Active.Down }},
		{"up", func(m *Measured) *Shared { return &m.Active.Up }},
	} {
		name := fmt.Sprintf("%d active circuits %s, ", r.Active.Circuits, way.name)
		rows = append(rows,
			line{name + "MB/s", func(m *Measured) float64 { return way.of(m).MBps }},
			line{name + "Jain's index", func(m *Measured) float64 { return way.of(m).Jain }},
			line{name + "most / least", func(m *Measured) float64 { return way.of(m).Spread }},
			line{name + "growth for each, kB", func(m *Measured) float64 { return float64(way.of(m).Growth) / float64(r.Active.Circuits) / 1000 }},
			line{name + "processors", func(m *Measured) float64 { return way.of(m).CPU }},
			line{name + "MB for a second of a processor", func(m *Measured) float64 { return way.of(m).perCPU() }},
			line{name + "processors of the load", func(m *Measured) float64 { return way.of(m).Load }},
		)
	}
	name := fmt.Sprintf("a small request beside %d circuits, ", r.Active.Bulk)
	return append(rows,
		line{name + "median ms", func(m *Measured) float64 { return m.Active.Median }},
		line{name + "p99 ms", func(m *Measured) float64 { return m.Active.P99 }},
		line{name + "these move MB/s", func(m *Measured) float64 { return m.Active.BulkMBps }},
	)
}
