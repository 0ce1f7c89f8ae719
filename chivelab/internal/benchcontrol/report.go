package benchcontrol

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/chivenet/chive/chivelab/internal/bench"
)

// haltTime is how long a program that bine started may take to end after HALT, in milliseconds: then it is killed.
const haltTime = 300

// leastShare is the goodput with a controller that listens to all events, over that without one.
const leastShare = 0.97

// leastRate is how many of the wanted events a second must come, as a share: the clock of a busy machine is late.
const leastRate = 0.98

// judge says which goals are met. All else that was measured has none: it is there to be compared.
func (r *Report) judge(rate int) {
	tor, chive := r.Programs[0], r.Programs[1]
	if chive.Halt != nil {
		r.Goals = append(r.Goals, bench.Beside("HALT, the slowest, ms", chive.Halt.Max, tor.Halt.Max, haltTime))
	}
	if chive.Events != nil {
		g := bench.Absolute("events a second, none lost", chive.Events.PerSecond, leastRate*float64(rate), true)
		g.Tor = tor.Events.PerSecond
		r.Goals = append(r.Goals, g)
	}
	if chive.Share != 0 {
		g := bench.Absolute("goodput with all events, over that without", chive.Share, leastShare, true)
		g.Tor = tor.Share
		r.Goals = append(r.Goals, g)
	}
}

// row is a figure of both programs.
type row struct {
	what       string
	tor, chive float64
}

// rows are what was measured.
func (r *Report) rows() (out []row) {
	t, c := r.Programs[0], r.Programs[1]
	add := func(what string, tor, chive float64) { out = append(out, row{what, tor, chive}) }
	if t.Halt != nil {
		add("HALT, median ms", t.Halt.Median, c.Halt.Median)
		add("HALT, 95 %, ms", t.Halt.P95, c.Halt.P95)
	}
	if t.GetInfo != nil {
		add("GETINFO, median ms", t.GetInfo.Median, c.GetInfo.Median)
		add("GETINFO, 99 %, ms", t.GetInfo.P99, c.GetInfo.P99)
	}
	if t.Events != nil {
		add("event, until it is read, median ms", t.Events.Lag.Median, c.Events.Lag.Median)
		add("event, until it is read, 99 %, ms", t.Events.Lag.P99, c.Events.Lag.P99)
		add("event, processor time, us", t.Events.CPU, c.Events.CPU)
		add("memory after the events, MB", t.Events.Memory, c.Events.Memory)
	}
	add("memory at rest, MB", t.Idle, c.Idle)
	if t.Share != 0 {
		add("one stream, MB/s", t.Alone, c.Alone)
		add("the same with all events, MB/s", t.Listened, c.Listened)
		add("memory after the streams, MB", t.After, c.After)
	}
	return out
}

// Write writes the report as text.
func (r *Report) Write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "%s\n\n\tChive\tC tor\tratio\t\n", r.Network)
	for _, x := range r.rows() {
		fmt.Fprintf(tw, "%s\t%.3f\t%.3f\t%.2f\t\n", x.what, x.chive, x.tor, x.chive/x.tor)
	}
	fmt.Fprintln(tw)
	if err := tw.Flush(); err != nil {
		return err
	}
	return bench.WriteGoals(w, r.Goals)
}
