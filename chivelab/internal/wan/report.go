package wan

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/internal/fault"
)

// Report is what a comparison found.
type Report struct {
	Plan     Plan        `json:"plan"`
	Sessions []Session   `json:"sessions"`
	Network  Description `json:"network"`
	Runs     []RunReport `json:"runs"`
	Results  []Result    `json:"results"`
	Missing  []string    `json:"missing,omitempty"` // what is not reported, and why
}

// Description says what is emulated.
type Description struct {
	SlowestRelay int64   `json:"slowest_relay_bits_per_second"`
	FastestRelay int64   `json:"fastest_relay_bits_per_second"`
	ClientRate   int64   `json:"client_bits_per_second"`
	Regions      int     `json:"regions"`
	NearestMS    float64 `json:"least_one_way_delay_ms"`
	FarthestMS   float64 `json:"greatest_one_way_delay_ms"`
	Offered      float64 `json:"offered_mbit_per_second"` // by all clients together, while requests begin
}

// RunReport is one run.
type RunReport struct {
	Run      int            `json:"run"`
	Seed     int            `json:"seed"`
	Side     Side           `json:"side"`
	Loss     float64        `json:"loss"`
	Late     bool           `json:"late"` // it is not in the results
	Lateness links.Lateness `json:"lateness"`
	Busy     float64        `json:"processors_busy"`
	Seconds  float64        `json:"seconds"`
	Requests int            `json:"requests"`
	Failed   int            `json:"failed"`
}

// Result is a quantile of a measure, at one loss, of one side.
type Result struct {
	Loss     float64  `json:"loss"`
	Side     Side     `json:"side"`
	Measure  string   `json:"measure"`
	Size     int64    `json:"size,omitempty"` // of the pages; 0: all sizes
	Quantile float64  `json:"quantile"`
	N        int      `json:"n"`
	Failed   int      `json:"failed"`
	Millis   *float64 `json:"ms,omitempty"` // nothing: too many failed
	// Ratio is that to the baseline, of the seeds that both have.
	Ratio *Ratio `json:"ratio,omitempty"`
}

// Measures.
const (
	firstByte = "first byte"
	lastByte  = "last byte"
)

// NewReport makes the report of samples. Runs whose packets were late do not count.
func NewReport(p *Plan, sessions []Session, runs []RunResult, samples []Sample) *Report {
	r := &Report{Plan: *p, Sessions: sessions, Network: p.describe()}
	of := map[int]RunResult{}
	tally := map[int]*RunReport{}
	good := map[Task]bool{}
	for _, x := range runs {
		of[x.ID] = x
		tally[x.ID] = &RunReport{x.ID, x.Seed, x.Side, x.Loss, x.Late, x.Lateness, x.Busy, x.Took.Seconds(), 0, 0}
		if !x.Late {
			good[x.Task] = true
		}
	}
	points := map[group][]point{}
	for _, s := range samples {
		x, ok := of[s.Run]
		if !ok {
			continue // the run was cut off
		}
		t := tally[s.Run]
		t.Requests++
		first, total := s.First, s.Total
		if s.Failed != "" {
			t.Failed++
			first, total = math.Inf(1), math.Inf(1)
		}
		if x.Late {
			continue
		}
		at := point{seed: x.Seed - 1, client: s.Client}
		for g, v := range map[group]float64{
			{x.Loss, x.Side, firstByte, 0}: first, {x.Loss, x.Side, firstByte, s.Size}: first, {x.Loss, x.Side, lastByte, s.Size}: total,
		} {
			at.value = v
			points[g] = append(points[g], at)
		}
	}
	for _, x := range runs {
		r.Runs = append(r.Runs, *tally[x.ID])
	}
	for _, loss := range p.Losses {
		for _, side := range Sides {
			r.side(p, loss, side, points, good)
		}
	}
	return r
}

// group is what a quantile is taken of.
type group struct {
	loss    float64
	side    Side
	measure string
	size    int64
}

// side adds what one side had at one loss.
func (r *Report) side(p *Plan, loss float64, side Side, points map[group][]point, good map[Task]bool) {
	own, both := map[int]bool{}, map[int]bool{}
	for seed := 1; seed <= p.Seeds; seed++ {
		own[seed-1] = good[Task{seed, side, loss}]
		both[seed-1] = own[seed-1] && good[Task{seed, Baseline, loss}]
	}
	if n := count(own); n < p.Seeds {
		r.Missing = append(r.Missing, fmt.Sprintf("%v, %g %% loss: %d of %d seeds count, the others %s", side, loss*100, n, p.Seeds, r.reason()))
	}
	if count(own) == 0 {
		return
	}
	add := func(measure string, size int64, q float64) {
		mine := points[group{loss, side, measure, size}]
		if len(mine) == 0 {
			return
		}
		res := Result{Loss: loss, Side: side, Measure: measure, Size: size, Quantile: q, N: len(mine)}
		for _, x := range mine {
			if math.IsInf(x.value, 0) {
				res.Failed++
			}
		}
		all := make(weights, p.Seeds)
		for i := range all {
			all[i] = slices.Repeat([]int{1}, p.Clients)
		}
		if v, ok := newSeries(mine).quantile(q, all); ok && !math.IsInf(v, 0) {
			res.Millis = &v
		}
		if side != Baseline && count(both) > 0 {
			res.Ratio = ratio(only(mine, both), only(points[group{loss, Baseline, measure, size}], both), q, count(both), p.Clients)
		}
		r.Results = append(r.Results, res)
	}
	add(firstByte, 0, .5)
	add(firstByte, 0, .9)
	for _, s := range p.Sizes {
		add(firstByte, s.Bytes, .5)
		add(lastByte, s.Bytes, .5)
		add(lastByte, s.Bytes, .9)
	}
}

// reason is why a run is not reported.
func (r *Report) reason() string {
	if len(r.Sessions) > 0 && r.Sessions[0].Simulator != "" {
		return "were not simulated"
	}
	return "had a machine that was too slow"
}

func count(m map[int]bool) (n int) {
	for _, v := range m {
		if v {
			n++
		}
	}
	return n
}

// only returns the points of some seeds, which are then numbered from 0.
func only(points []point, seeds map[int]bool) series {
	number := map[int]int{}
	var order []int
	for s, in := range seeds {
		if in {
			order = append(order, s)
		}
	}
	slices.Sort(order)
	for i, s := range order {
		number[s] = i
	}
	var out []point
	for _, p := range points {
		if seeds[p.seed] {
			p.seed = number[p.seed]
			out = append(out, p)
		}
	}
	return newSeries(out)
}

// describe says what a plan emulates.
func (p *Plan) describe() Description {
	bytes := 0.0
	for _, c := range p.Layout(1).Clients {
		for _, q := range c.Requests {
			bytes += float64(q.Size)
		}
	}
	return Description{int64(p.Scale * slowest), int64(p.Scale * fastest), int64(clientRate), regions, millis(2 * nearest), millis(2 * farthest), bytes * 8 / 1e6 / p.Window.Seconds()}
}

// Late is how many runs do not count, and Lost how many have no other in their place.
func (r *Report) Late() (late int) {
	for _, x := range r.Runs {
		if x.Late {
			late++
		}
	}
	return late
}

// Err is an error if something is not reported.
func (r *Report) Err() error {
	if len(r.Missing) == 0 {
		return nil
	}
	if len(r.Sessions) > 0 && r.Sessions[0].Simulator != "" {
		return fault.New(fault.Config, "some runs are not reported, which were not simulated: run shadow in their directories, too")
	}
	return fault.New(fault.Resource, "this machine was too slow to emulate the links of some runs, which are not reported: try again when it has less to do, or with --scale below 1 or fewer --clients, in another directory")
}

// Table is the report for people.
func (r *Report) Table() string {
	var b strings.Builder
	d := &r.Network
	fmt.Fprintf(&b, "%d relays of %.3g to %.3g Mbit/s in %d regions %.0f to %.0f ms apart, one way, and %d clients that ask for %.1f Mbit/s together\n",
		r.Plan.Relays, float64(d.SlowestRelay)/1e6, float64(d.FastestRelay)/1e6, d.Regions, d.NearestMS, d.FarthestMS, r.Plan.Clients, d.Offered)
	if r.Plan.Scale != 1 {
		fmt.Fprintf(&b, "The relays' rates are scaled by %g.\n", r.Plan.Scale)
	}
	if n := len(r.Sessions); n > 0 {
		s := r.Sessions[n-1]
		fmt.Fprintf(&b, "Chive %s, %s, TCP %s, %s\n", s.Chive, s.Tor, s.Congestion, s.where())
	}
	busy, failed, requests := 0.0, 0, 0
	for _, x := range r.Runs {
		busy = max(busy, x.Busy)
		failed, requests = failed+x.Failed, requests+x.Requests
	}
	fmt.Fprintf(&b, "%d runs, %d of them late and not counted; processors busy up to %.0f %%; %d of %d requests failed\n", len(r.Runs), r.Late(), busy*100, failed, requests)
	for _, loss := range r.Plan.Losses {
		fmt.Fprintf(&b, "\n%g %% loss: milliseconds of C tor alone, and the others' ratios to it (below 1 is faster), with intervals of 95 %%\n", loss*100)
		r.lossTable(&b, loss)
	}
	for _, m := range r.Missing {
		fmt.Fprintf(&b, "not complete: %s\n", m)
	}
	return b.String()
}

func (r *Report) lossTable(b *strings.Builder, loss float64) {
	fmt.Fprintf(b, "%-26s %6s %9s", "", "n", "C tor ms")
	for _, s := range Sides[1:] {
		fmt.Fprintf(b, "  %-28s", s)
	}
	b.WriteString("\n")
	for _, base := range r.Results {
		if base.Side != Baseline || base.Loss != loss {
			continue
		}
		fmt.Fprintf(b, "%-26s %6d %9s", base.name(), base.N, millisText(base.Millis))
		for _, s := range Sides[1:] {
			text := "-"
			for _, x := range r.Results {
				if x.Side == s && x.Loss == loss && x.Measure == base.Measure && x.Size == base.Size && x.Quantile == base.Quantile {
					text = x.Ratio.String()
				}
			}
			fmt.Fprintf(b, "  %-28s", text)
		}
		b.WriteString("\n")
	}
}

// where is what the nodes were in.
func (s *Session) where() string {
	if s.Simulator != "" {
		return s.Simulator
	}
	return fmt.Sprintf("%d cores", s.Machine.Cores)
}

func (x *Result) name() string {
	size := "all"
	if x.Size >= 1<<20 {
		size = fmt.Sprintf("%d MiB", x.Size>>20)
	} else if x.Size > 0 {
		size = fmt.Sprintf("%d KiB", x.Size>>10)
	}
	what := "median"
	if x.Quantile != .5 {
		what = fmt.Sprintf("p%.0f", x.Quantile*100)
	}
	return fmt.Sprintf("%s, %s, %s", size, x.Measure, what)
}

func millisText(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f", *v)
}

func (r *Ratio) String() string {
	switch {
	case r == nil:
		return "-"
	case r.Low == nil:
		return fmt.Sprintf("%.2f", r.Value)
	case r.High == nil:
		return fmt.Sprintf("%.2f (%.2f to ?)", r.Value, *r.Low)
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", r.Value, *r.Low, *r.High)
}

// Estimate is about how long a plan takes.
func (p *Plan) Estimate() time.Duration {
	run := p.Window + p.Patience/3 + settle
	return time.Duration(p.Seeds) * (2*relayStart + 4*clientStart + time.Duration(4*len(p.Losses))*run)
}

// About how long relays and clients take to start, on two cores.
const (
	relayStart  = 12 * time.Second
	clientStart = 8 * time.Second
)
