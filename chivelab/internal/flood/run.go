package flood

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/proc"
)

// Row is one flood against one victim.
type Row struct {
	Flood   string `json:"flood"`
	What    string `json:"what"`
	Sources int    `json:"sources"`
	Conns   int    `json:"conns"` // the budget: connections
	Rate    int    `json:"rate"`  // and events per second
	Victim  string `json:"victim"`

	Died      []string `json:"died,omitempty"` // any processes of the network
	RSSBefore float64  `json:"rss_before_MB"`
	RSSPeak   float64  `json:"rss_peak_MB"` // in the flood and after it
	RSSAfter  float64  `json:"rss_after_MB"`
	CPU       float64  `json:"cpu"`          // processors that the victim used in the flood
	AttackCPU float64  `json:"attacker_cpu"` // and the attacker

	Before Phase `json:"before"`
	During Phase `json:"during"`
	After  Phase `json:"after"`
	// Recovered is how many seconds after the flood the round trip was as before
	// (at most twice as long); negative: not within Plan.After.
	Recovered float64           `json:"recovered_s"`
	Attack    Counts            `json:"attack"`
	Errors    map[string]string `json:"errors,omitempty"` // the honest client's newest error of each kind, during the flood
}

const (
	// window is how long the round trips must be as before.
	window = time.Second
	// look is how often the bench looks at the victim.
	look = 100 * time.Millisecond
	// settle is what the honest client does before it is measured.
	settle = time.Second
)

// run runs one flood against one victim.
func (s *site) run(ctx context.Context, f *flood, v *victim, number, sources int) (*Row, error) {
	s.plan.Progress(fmt.Sprintf("%s from %d, %s: %s", f.name, sources, v.name, f.what))
	row := &Row{Flood: f.name, What: f.what, Sources: sources, Conns: f.conns, Rate: f.rate, Victim: v.name, Recovered: -1}
	if err := s.fresh(ctx, v); err != nil {
		return nil, err
	}
	h := startHonest(ctx, s.user(v))
	defer h.stop()
	w := &watch{pid: s.pids[v.node]}
	span := func(d time.Duration, until func() bool) (from, to mark) {
		from = h.mark()
		for time.Since(from.at) < d && ctx.Err() == nil && w.look() && (until == nil || !until()) {
			pause(ctx, look)
		}
		return from, h.mark()
	}
	span(settle, nil)
	h.failures()
	w.peak = 0
	from, to := span(s.plan.Before, nil)
	row.Before, row.RSSBefore = h.phase(from, to), w.rss
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if row.Before.Ping.Count == row.Before.Ping.Failed {
		return nil, fault.New(fault.Network, "the honest client gets nowhere before the flood: %v", h.failures())
	}
	atk, err := s.attacker(ctx, s.order(f, v, number, sources, s.plan.During+time.Minute))
	if err != nil {
		return nil, err
	}
	cpu := w.cpu
	from, to = span(s.plan.During, nil)
	row.During, row.Errors = h.phase(from, to), h.failures()
	row.CPU = (w.cpu - cpu).Seconds() / row.During.Seconds
	if row.Attack, err = atk.stop(); err != nil {
		return nil, err
	}
	row.AttackCPU = float64(row.Attack.CPU) / 1000 / row.During.Seconds
	over := time.Now()
	normal := func() bool {
		now := time.Now()
		if now.Sub(over) < window {
			return false
		}
		last := timesOf(h.pings.between(now.Add(-window), now))
		ok := last.Count > 0 && last.Failed == 0 && last.P95 <= recoveredRatio*row.Before.Ping.P95
		if ok {
			row.Recovered = max(0, (now.Sub(over) - window).Seconds())
		}
		return ok
	}
	_, to = span(s.plan.After, normal)
	from = mark{at: to.at.Add(-window)}
	row.After = h.phase(from, to)
	from = h.mark()
	pause(ctx, window) // so that goodput is not only that of the last second
	row.After.Goodput = h.phase(from, h.mark()).Goodput
	w.look()
	row.RSSPeak, row.RSSAfter, row.Died = w.peak, w.rss, s.dead()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return row, nil
}

// watch follows a process.
type watch struct {
	pid       int
	rss, peak float64 // MB
	cpu       time.Duration
}

// look reads what the process uses; false when it has ended.
func (w *watch) look() bool {
	u, err := proc.Of(w.pid)
	if err != nil {
		return false
	}
	w.rss, w.cpu = float64(u.RSS)/1e6, u.CPU
	w.peak = max(w.peak, w.rss)
	return true
}

// attacker is an attacker's process.
type attacker struct{ p *child.Process }

// attacker starts an attacker's process. It uses at most one processor, and at a
// lower priority than others.
func (s *site) attacker(ctx context.Context, o Order) (*attacker, error) {
	order, err := json.Marshal(o)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	args := append([]string{"-n", "10"}, s.plan.Attacker...)
	cmd := exec.Command("nice", args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stdin = bytes.NewReader(order)
	p, _, err := child.Run(ctx, nil, cmd, func(line string) bool { return line == "ready" })
	if err != nil {
		return nil, err
	}
	return &attacker{p}, nil
}

// stop ends the attacker, and returns its counts, which it prints last.
func (a *attacker) stop() (c Counts, err error) {
	if err := a.p.Drain(); err != nil {
		return c, err
	}
	words := a.p.LastWords()
	last := words[strings.LastIndexByte(words, '\n')+1:]
	if err := json.Unmarshal([]byte(last), &c); err != nil {
		return c, fault.New(fault.Local, "the attacker does not say what it did: %s", words)
	}
	return c, nil
}
