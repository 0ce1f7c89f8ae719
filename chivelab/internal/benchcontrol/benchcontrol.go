// Package benchcontrol compares the control ports of "chive tor" and of C tor, as clients of one network of C tor's with the
// same torrc, in one run.
package benchcontrol

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/chivenet/chive/chivelab/internal/bench"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/measure"
	"github.com/chivenet/chive/internal/lab/target"
)

// Plan says what to measure.
type Plan struct {
	Program string // chive's binary, which is run as "chive tor"
	Tor     string // C tor's; empty: "tor" in PATH

	Halts     int           // how often each program is started, connected and told to end by SIGNAL HALT
	Asks      int           // GETINFO commands of a round
	Rate      int           // events a second
	Readers   int           // who reads all of them
	EventTime time.Duration // of a round
	Bytes     int64         // that a transfer moves
	Rounds    int           // of questions and transfers, in turns; of events there are a third of it, and one at least

	Progress func(string) // of the present step; may be nil
}

// mostRate is far above what one connection can cause.
const mostRate = 1_000_000

// Report is the result of Run.
type Report struct {
	Network  string       `json:"network"`
	Programs []*Figures   `json:"programs"` // C tor first
	Goals    []bench.Goal `json:"goals"`
}

// Figures are what was measured of one program.
type Figures struct {
	Name     string           `json:"name"`
	Halt     *measure.Latency `json:"halt,omitempty"`    // from the command to the end of the process
	GetInfo  *measure.Latency `json:"getinfo,omitempty"` // one after the other, on one connection
	Events   *Events          `json:"events,omitempty"`
	Idle     float64          `json:"idle_mb"` // resident memory with a connection for control, before the rest
	After    float64          `json:"after_mb"`
	Alone    float64          `json:"alone_mbps"`    // goodput of one stream, without a controller; the median of all rounds
	Listened float64          `json:"listened_mbps"` // with one that listens to all events
	Share    float64          `json:"share"`         // of listened, in a round, in alone; the median of all rounds
}

// Check refuses what cannot be measured.
func (p *Plan) Check() error {
	if p.Halts < 0 || p.Rounds < 0 || p.Asks < 0 || p.EventTime < 0 {
		return fault.New(fault.Config, "bench control: --halts, --rounds, --asks and --event-time must not be negative")
	}
	if p.Rate <= 0 || p.Rate > mostRate || p.Readers <= 0 || p.Bytes <= 0 {
		return fault.New(fault.Config, "bench control: --rate, --readers and --megabytes must be above 0, and --rate at most %d", mostRate)
	}
	return nil
}

// Run measures both programs, in turns.
func Run(ctx context.Context, p Plan) (_ *Report, err error) {
	if p.Progress == nil {
		p.Progress = func(string) {}
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	p.Progress("starting a network of C tor")
	tor, _, err := ctor.Find(p.Tor)
	if err != nil {
		return nil, err
	}
	nw, err := ctor.Start(ctx, ctor.Options{Relays: 2, Exits: 1, Scheduler: "Vanilla", TorPath: p.Tor})
	if err != nil {
		return nil, err
	}
	defer nw.Close()
	tg, err := target.Start()
	if err != nil {
		return nil, err
	}
	defer tg.Close()
	dir, err := os.MkdirTemp("", "chive-control-")
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	defer os.RemoveAll(dir)
	all := []*program{{name: "C tor", command: []string{tor}}, {name: "chive", command: []string{p.Program, "tor"}}}
	for _, pr := range all {
		pr.dir = filepath.Join(dir, pr.name)
		if err := pr.prepare(nw); err != nil {
			return nil, err
		}
	}
	r := &run{Plan: &p, target: tg, programs: all}
	out := &Report{Network: nw.String()}
	for _, pr := range all {
		out.Programs = append(out.Programs, &pr.figures)
		pr.figures.Name = pr.name
	}
	for _, step := range []func(context.Context) error{r.halts, r.start, r.questions, r.events, r.transfers} {
		if err := step(ctx); err != nil {
			r.kill()
			return nil, err
		}
	}
	r.kill()
	out.judge(p.Rate)
	return out, nil
}

// run is one comparison.
type run struct {
	*Plan
	target   *target.Target
	programs []*program
}

// turns calls f for each program, in another order each time.
func (r *run) turns(n int, f func(round int, p *program) error) error {
	order := slices.Clone(r.programs)
	for i := range n {
		for _, p := range order {
			if err := f(i, p); err != nil {
				return fault.New(fault.KindOf(err), "%s: %w", p.name, err)
			}
		}
		slices.Reverse(order)
	}
	return nil
}

func (r *run) kill() {
	for _, p := range r.programs {
		p.kill()
	}
}

// halts measures how long SIGNAL HALT takes to end a program that is connected.
func (r *run) halts(ctx context.Context) error {
	r.Progress("SIGNAL HALT")
	took := map[*program][]time.Duration{}
	err := r.turns(r.Halts, func(_ int, p *program) error {
		c, err := p.start(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		d, err := p.halt(ctx, c)
		took[p] = append(took[p], d)
		return err
	})
	if err == nil && r.Halts > 0 {
		for p, d := range took {
			p.figures.Halt = measure.NewLatency(d)
		}
	}
	return err
}

// start starts both programs for all that follows.
func (r *run) start(ctx context.Context) error {
	return r.turns(1, func(_ int, p *program) (err error) {
		if p.control, err = p.start(ctx); err != nil {
			return err
		}
		p.figures.Idle, err = p.memory()
		return err
	})
}

// questions measures round trips of GETINFO.
func (r *run) questions(ctx context.Context) error {
	r.Progress("GETINFO")
	took := map[*program][]time.Duration{}
	err := r.turns(r.Rounds, func(_ int, p *program) error {
		for i := range r.Asks + 10 { // the first do not count: the other program had its turn before
			began := time.Now()
			if _, err := p.control.GetInfo(ctx, "version"); err != nil {
				return err
			}
			if i >= 10 {
				took[p] = append(took[p], time.Since(began))
			}
		}
		return nil
	})
	if err == nil && r.Rounds > 0 && r.Asks > 0 {
		for p, d := range took {
			p.figures.GetInfo = measure.NewLatency(d)
		}
	}
	return err
}

// transfers measures one stream's goodput without a controller and with one that listens to all events, in turns.
func (r *run) transfers(ctx context.Context) error {
	r.Progress("goodput")
	alone, listened, shares := map[*program][]float64{}, map[*program][]float64{}, map[*program][]float64{}
	err := r.turns(r.Rounds, func(round int, p *program) error {
		var at [2]float64
		for i := range 2 {
			with := (i + round) % 2
			var err error
			if at[with], err = p.transfer(ctx, r.target, r.Bytes, with == 1); err != nil {
				return err
			}
		}
		alone[p], listened[p], shares[p] = append(alone[p], at[0]), append(listened[p], at[1]), append(shares[p], at[1]/at[0])
		return nil
	})
	if err != nil || r.Rounds == 0 {
		return err
	}
	for _, p := range r.programs {
		f := &p.figures
		f.Alone, f.Listened, f.Share = median(alone[p]), median(listened[p]), median(shares[p])
		if f.After, err = p.memory(); err != nil {
			return err
		}
	}
	return nil
}

// median returns the middle one of some numbers, or the mean of the two.
func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
