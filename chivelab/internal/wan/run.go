package wan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chivenet/chive/chivelab/internal/appearance"
	"github.com/chivenet/chive/chivelab/internal/benchcirc"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
)

// Run is one call of the comparison.
type Run struct {
	Self    []string // the command under which this program has "client" and "target"
	Chive   string   // the programs that are compared
	Tor     string
	Dir     string // of the samples and the report
	Version string // of Chive
	Plan    Plan
	// Congestion is TCP's algorithm on all hosts; empty: the machine's.
	Congestion string
	// Progress is called when something begins.
	Progress func(Progress)

	plan     *Plan
	sessions []Session
}

// Progress says how far a run is.
type Progress struct {
	What string
	Done int
	Of   int
	Late int           // runs that do not count
	Left time.Duration // 0: not known yet
}

// Names of files in the directory.
const (
	SamplesName = "samples.csv"
	RunsName    = "runs.csv"
	ReportName  = "report.json"
	stateName   = "state.json"
	nodesName   = "nodes" // the nodes' files, while they run
)

// attempts is how often a run is measured while the emulator is late.
const attempts = 2

// Task is one run: a seed, a side and a loss.
type Task struct {
	Seed int
	Side Side
	Loss float64
}

// Tasks returns all runs of a plan, in their order: first those that share a network, and of them those that share
// clients.
func (p *Plan) Tasks() (out []Task) {
	for seed := 1; seed <= p.Seeds; seed++ {
		for _, s := range p.order(seed) {
			for i := range p.Losses {
				out = append(out, Task{seed, s, p.Losses[(i+seed)%len(p.Losses)]})
			}
		}
	}
	return out
}

// order has each side first, and early, about as often: what a machine does meanwhile is then the same for all.
func (p *Plan) order(seed int) []Side {
	a, b, c, d := Sides[0], Sides[1], Sides[2], Sides[3]
	return [][]Side{{a, b, c, d}, {c, d, a, b}, {b, a, d, c}, {d, c, b, a}}[(seed-1)%4]
}

// state says what is in a directory.
type state struct {
	Plan     Plan      `json:"plan"`
	Sessions []Session `json:"sessions"`
}

// Session is one call of the command.
type Session struct {
	Began      time.Time         `json:"began"`
	Chive      string            `json:"chive"`
	Tor        string            `json:"tor"`
	Congestion string            `json:"tcp_congestion_control"`
	Simulator  string            `json:"simulator,omitempty"` // "": Linux namespaces
	Machine    benchcirc.Machine `json:"machine"`
}

// Do measures what is not measured yet, and writes samples and the report. When ctx ends, what was measured is there,
// and the next call goes on.
func (r *Run) Do(ctx context.Context) (report *Report, err error) {
	if err := r.Plan.Check(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // and nothing is made
		return nil, fault.Ended(ctx, "nothing is measured: %w", context.Cause(ctx))
	}
	r.plan = &r.Plan
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(filepath.Join(r.Dir, nodesName)); err != nil { // of one that was killed
		return nil, fault.Wrap(fault.Local, err)
	}
	f, err := openResults(r.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := r.all(ctx, f); err != nil {
		return nil, err
	}
	report = NewReport(&r.Plan, r.sessions, f.runs, f.samples)
	return report, atomicfile.WriteJSON(filepath.Join(r.Dir, ReportName), report, atomicfile.Report)
}

// begin notes that the comparison is begun in the directory.
func (r *Run) begin(ctx context.Context) error {
	st := state{Plan: r.Plan}
	name := filepath.Join(r.Dir, stateName)
	if _, err := os.Stat(name); err == nil {
		was, err := readState(r.Dir)
		if err != nil {
			return err
		}
		if st = *was; st.simulated() {
			return fault.New(fault.Config, "%s is for the simulator: choose another directory", r.Dir)
		}
		if was, is := fmt.Sprintf("%+v", st.Plan), fmt.Sprintf("%+v", r.Plan); was != is {
			return fault.New(fault.Config, "%s has the samples of another comparison: choose another directory", r.Dir)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return fault.Wrap(fault.Local, err)
	}
	tor, err := appearance.TorVersion(ctx, r.Tor)
	if err != nil {
		return err
	}
	s := Session{time.Now().UTC().Truncate(time.Second), r.Version, tor.Tor, cmp.Or(r.Congestion, congestion()), "", benchcirc.ThisMachine()}
	if n := len(st.Sessions); n > 0 && st.Sessions[n-1].Congestion != s.Congestion {
		return fault.New(fault.Config, "%s has the samples of hosts whose TCP has %s, not %s: choose another directory", r.Dir, st.Sessions[n-1].Congestion, s.Congestion)
	}
	st.Sessions = append(st.Sessions, s)
	r.sessions = st.Sessions
	return atomicfile.WriteJSON(name, st, atomicfile.Report)
}

// left returns the runs that are not done, and how often each was tried.
func (r *Run) left(runs []RunResult) (left []Task, tried map[Task]int) {
	tried = map[Task]int{}
	over := map[Task]bool{}
	for _, x := range runs {
		if tried[x.Task]++; !x.Late || tried[x.Task] == attempts {
			over[x.Task] = true
		}
	}
	for _, t := range r.plan.Tasks() {
		if !over[t] {
			left = append(left, t)
		}
	}
	return left, tried
}
