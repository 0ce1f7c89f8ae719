// Package benchonion compares onion services in one run on one machine: C tor's client
// and service, Chive's over the same relays of C tor, and Chive's in a network that is
// all Chive's.
package benchonion

import (
	"context"
	"io"
	"os"
	"slices"
	"time"

	"github.com/chivenet/chive/chivelab/internal/bench"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/measure"
	"github.com/chivenet/chive/internal/lab/proc"
	"github.com/chivenet/chive/internal/lab/target"
)

// Plan says what to measure. A measurement whose number is zero is left out.
type Plan struct {
	// Program is a binary with chive's commands, which run as "chive onion serve" and
	// "chive proxy".
	Program string
	// Crowd is the command line, program first, of a process that calls HoldCrowd, and
	// Attacker that of one that calls Attack.
	Crowd, Attacker []string
	// Tor is C tor's program; empty: "tor" in PATH.
	Tor string
	// Schedulers are C tor's to compare with: "Vanilla", or "KIST".
	Schedulers []string
	// Measure has the connects, each with a rendezvous of its own, and the transfers.
	Measure measure.Plan
	// Cold is how many services, with addresses that no client has seen, are connected
	// to, and Listens how many services are started to time their start.
	Cold, Listens int
	// Relayed is how many bytes go each way through a rendezvous point that is measured.
	Relayed int64
	// Crowds are numbers of open connections, growing.
	Crowds []int
	// Rest is the time after which the memory of an open crowd is measured once more.
	Rest time.Duration
	// FloodTime is how long a service is flooded with FloodRate introductions per second.
	FloodTime time.Duration
	FloodRate int
	// Profiles is a directory for CPU profiles of the bench's own clients; empty: none.
	Profiles string
	// Log receives the logs of Chive's nodes; may be nil.
	Log io.Writer
	// Progress is called with the present step; may be nil.
	Progress func(string)
}

// Report is the result of Run.
type Report struct {
	Networks []Network `json:"networks"` // one for each scheduler of C tor
	Crowds   []Crowd   `json:"crowds,omitempty"`
	// Floods are of C tor's service and Chive's over C tor's relays, without and with
	// proofs of work.
	Floods []Flood      `json:"floods,omitempty"`
	Goals  []bench.Goal `json:"goals"`
}

// Network holds what was measured with one scheduler of C tor.
type Network struct {
	Scheduler string            `json:"scheduler"`
	Pairs     []*measure.Report `json:"pairs"` // C tor's, Chive's over C tor's relays, all Chive
	// Burst is the time to connect over a new rendezvous without a pause before, for the
	// same pairs: circuits that were built ahead are used up.
	Burst []*measure.Latency `json:"connect_in_a_row,omitempty"`
	// Cold is the time to connect without a descriptor, for the same pairs.
	Cold []*measure.Latency `json:"cold,omitempty"`
	// Listens is the time from the start of a service to the first byte that a client
	// of C tor's gets from it.
	Listens []Listens `json:"listens,omitempty"`
	// Rendezvous is the work of a rendezvous point: C tor's, Chive's.
	Rendezvous []Rendezvous `json:"rendezvous,omitempty"`
}

// run is a run of the bench.
type run struct {
	*Plan
	dir    string
	target *target.Target // where services lead to
	chive  *chiveNet
}

// Run measures.
func Run(ctx context.Context, p Plan) (*Report, error) {
	if p.Progress == nil {
		p.Progress = func(string) {}
	}
	p.Measure.Progress = p.Progress
	if !slices.IsSorted(p.Crowds) {
		return nil, fault.New(fault.Config, "bench onion: the numbers of connections must grow")
	}
	if len(p.Schedulers) == 0 {
		return nil, fault.New(fault.Config, "bench onion: no scheduler of C tor is named")
	}
	tor, _, err := ctor.Find(p.Tor)
	if err != nil {
		return nil, err
	}
	for _, program := range []string{tor, p.Program} {
		if err := proc.Uncache(program); err != nil {
			return nil, err
		}
	}
	r := &run{Plan: &p}
	if r.dir, err = os.MkdirTemp("", "chive-bench-"); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	defer os.RemoveAll(r.dir)
	if r.target, err = target.Start(); err != nil {
		return nil, err
	}
	defer r.target.Close()
	if r.chive, err = r.startChive(ctx); err != nil {
		return nil, err
	}
	defer r.chive.close()
	out := &Report{}
	for _, s := range p.Schedulers {
		if err := r.network(ctx, s, out); err != nil {
			return nil, fault.New(fault.KindOf(err), "%s: %w", s, err)
		}
	}
	for _, n := range out.Networks {
		out.Goals = append(out.Goals, n.goals()...)
	}
	out.Goals = append(append(out.Goals, crowdGoals(out.Crowds)...), floodGoals(out.Floods)...)
	return out, nil
}

// network measures beside C tor with one scheduler.
func (r *run) network(ctx context.Context, scheduler string, out *Report) error {
	tor, err := r.startTor(ctx, scheduler)
	if err != nil {
		return err
	}
	defer tor.close()
	s := &site{run: r, tor: tor, out: &Network{Scheduler: scheduler}}
	defer s.close()
	for _, step := range []func(context.Context) error{s.open, s.measure, s.cold, s.listens, s.rendezvous} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if len(out.Networks) == 0 { // memory and floods do not depend on the scheduler
		if out.Crowds, err = s.crowds(ctx); err != nil {
			return err
		}
		if out.Floods, err = s.floods(ctx); err != nil {
			return err
		}
	}
	out.Networks = append(out.Networks, *s.out)
	return nil
}
