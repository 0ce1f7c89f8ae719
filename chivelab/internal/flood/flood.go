// Package flood attacks relays and authorities on purpose, and measures the effect on
// an honest client. The victims are Chive's and C tor's nodes in one run, with the
// same attackers. Everything stays on loopback.
//
//	bench process:  honest client --circuit--> victim --> exit --> target
//	its children:   attacker, nice 10, GOMAXPROCS 1 --> victim (and its neighbours)
//
// A flood is a row of the table in table.go and a function of the form func(ctx,
// *attack) error. It must end when ctx ends, stay within the budget of its row
// (attack.conns, attack.rate), and bound its own memory.
package flood

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/chivenet/chive/chivelab/internal/bench"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/options"
)

// Plan describes a run of the bench. Zero fields have the defaults in their comments.
type Plan struct {
	// Program is chive's binary; it is run as "chive relay" and "chive authority".
	Program string
	// Attacker is the command line, program first, of an attacker that calls Serve.
	Attacker []string
	// Tor is C tor's program; empty: "tor" in PATH.
	Tor string
	// Floods are the names of the floods to run; empty: all.
	Floods []string
	// Victims are "Chive", "C tor"; empty: both.
	Victims []string
	// Sources are numbers of addresses from which the attackers connect, one run for
	// each; default 1 and 50.
	Sources []int
	// Before and During are how long the honest client is measured before and during
	// a flood; default 4 and 8 seconds. After is how long it may take to recover;
	// default 10 seconds.
	Before, During, After time.Duration
	// Memory is the bound that the victims are configured with, in bytes: Chive's
	// relay by --max-memory, C tor's by MaxMemInQueues; default 256 MiB, the minimum
	// of C tor.
	Memory int64
	// RelayFlags are further flags of "chive relay".
	RelayFlags []string
	// Log receives the logs of Chive's nodes; may be nil.
	Log io.Writer
	// Progress is called with the present step; may be nil.
	Progress func(string)
}

// check sets the defaults and reports mistakes. It returns the floods to run.
func (p *Plan) check() ([]*flood, error) {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&p.Before, 4*time.Second)
	def(&p.During, 8*time.Second)
	def(&p.After, 10*time.Second)
	if p.Memory == 0 {
		p.Memory = 256 << 20
	}
	if p.Progress == nil {
		p.Progress = func(string) {}
	}
	if len(p.Sources) == 0 {
		p.Sources = []int{1, 50}
	}
	for _, n := range p.Sources {
		if n < 1 || n > maxSources {
			return nil, fault.New(fault.Config, "flood: %d addresses to come from: 1 to %d are possible", n, maxSources)
		}
	}
	for _, v := range p.Victims {
		if !slices.Contains(Victims, v) {
			return nil, fault.New(fault.Config, "victim: %w", options.NotOneOf(v, Victims))
		}
	}
	names := p.Floods
	if len(names) == 0 {
		names = Names()
	}
	var out []*flood
	for _, n := range names {
		f, err := find(n)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// Victims are the names of those that are attacked.
var Victims = []string{"Chive", "C tor"}

// Report is the result of a run.
type Report struct {
	Network string       `json:"network"`
	Memory  int64        `json:"memory"`
	Rows    []Row        `json:"rows"`
	Goals   []bench.Goal `json:"goals"`
	Died    []string     `json:"died,omitempty"` // processes that ended
}

// Run starts a network and runs the floods one after the other, each against Chive's
// victim and then C tor's. If Run returns an error and a report, the report has the
// results before the error.
func Run(ctx context.Context, p Plan) (*Report, error) {
	all, err := p.check()
	if err != nil {
		return nil, err
	}
	roles := map[role]bool{}
	for _, f := range all {
		roles[f.on] = true
	}
	s, err := newSite(ctx, &p, roles)
	if err != nil {
		return nil, err
	}
	defer s.close()
	r := &Report{Network: s.tor.String() + ", and Chive's relay", Memory: p.Memory}
	number := 0
	for _, f := range all {
		for _, sources := range p.Sources {
			number++
			for _, v := range s.victims {
				if v.role != f.on || len(p.Victims) > 0 && !slices.Contains(p.Victims, v.name) {
					continue
				}
				row, err := s.run(ctx, f, v, number, sources)
				if err != nil {
					return r, fault.New(fault.KindOf(err), "flood %s, %s: %w", f.name, v.name, err)
				}
				r.add(row, s)
			}
		}
	}
	r.Goals = goals(r.Rows, p.Memory)
	return r, nil
}

// add adds a row, and records the processes that ended in it.
func (r *Report) add(row *Row, s *site) {
	r.Rows = append(r.Rows, *row)
	r.Died = append(r.Died, row.Died...)
	for _, name := range row.Died {
		s.plan.Progress("DIED: " + name)
		delete(s.pids, name)
	}
}
