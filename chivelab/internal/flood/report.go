package flood

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/chivenet/chive/chivelab/internal/bench"
)

// The goals: how much worse an honest client may be served during a flood, and
// after it.
const (
	duringRatio    = 5       // of the round trip's p95
	recoveredRatio = 2       // of it, after
	goodputRatio   = 1.0 / 3 // of the goodput
	spareMemory    = 64      // MB beside the configured bound
)

// goals compares every row with the goals, with C tor's number for comparison.
func goals(rows []Row, memory int64) []bench.Goal {
	var out []bench.Goal
	for i := range rows {
		r := &rows[i]
		if r.Victim != "Chive" {
			continue
		}
		tor := other(rows, r)
		for _, g := range []struct {
			what  string
			of    func(*Row) float64
			limit float64
			least bool
		}{
			{"processes that ended", func(r *Row) float64 { return float64(len(r.Died)) }, 0, false},
			{"RSS peak, MB", func(r *Row) float64 { return r.RSSPeak }, float64(memory)/1e6 + spareMemory, false},
			{"p95 in the flood, times idle", func(r *Row) float64 { return over(r.During.Ping.P95, r.Before.Ping.P95) }, duringRatio, false},
			{"goodput in the flood, times idle", func(r *Row) float64 { return over(r.During.Goodput, r.Before.Goodput) }, goodputRatio, true},
			{"p95 after it, times idle", func(r *Row) float64 { return over(r.After.Ping.P95, r.Before.Ping.P95) }, recoveredRatio, false},
		} {
			one := bench.Goal{What: fmt.Sprintf("%s from %d: %s", r.Flood, r.Sources, g.what), Chive: g.of(r), Limit: g.limit, Least: g.least}
			one.Value = one.Chive
			if one.Met = one.Value <= one.Limit; one.Least {
				one.Met = one.Value >= one.Limit
			}
			if tor != nil {
				one.Tor = g.of(tor)
			}
			out = append(out, one)
		}
	}
	return out
}

// over returns the ratio a/b, or zero if b is zero.
func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// other returns C tor's row for a row of Chive's.
func other(rows []Row, r *Row) *Row {
	for i := range rows {
		if o := &rows[i]; o.Flood == r.Flood && o.Sources == r.Sources && o.Victim != r.Victim {
			return o
		}
	}
	return nil
}

// WriteTable writes the rows, Chive's and C tor's below each other.
func (r *Report) WriteTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "flood\tfrom\tvictim\talive\tRSS MB\tpeak\tp95 ms: idle\tin it\tafter\tback, s\tMB/s: idle\tin it\tafter\tconnect ms: idle\tin it\tlost: trips\tconnects\tCPU\tattacker\tsent\topened\trefused\tclosed\t")
	for _, x := range r.Rows {
		alive, back := "yes", "no"
		if len(x.Died) > 0 {
			alive = "DIED"
		}
		if x.Recovered >= 0 {
			back = fmt.Sprintf("%.1f", x.Recovered)
		}
		fmt.Fprintf(tw, "%s\t%d\t%s\t%s\t%.0f\t%.0f\t%.1f\t%.1f\t%.1f\t%s\t%.1f\t%.1f\t%.1f\t%.0f\t%.0f\t%d\t%d\t%.2f\t%.2f\t%d\t%d\t%d\t%d\t\n",
			x.Flood, x.Sources, x.Victim, alive, x.RSSBefore, x.RSSPeak, x.Before.Ping.P95, x.During.Ping.P95, x.After.Ping.P95, back,
			x.Before.Goodput, x.During.Goodput, x.After.Goodput, x.Before.Connect.Median, x.During.Connect.Median,
			x.During.Ping.Failed, x.During.Connect.Failed, x.CPU, x.AttackCPU, x.Attack.Sent, x.Attack.Opened, x.Attack.Refused, x.Attack.Closed)
	}
	return tw.Flush()
}

// WriteGoals writes how many goals are met, and lists those that are not.
func (r *Report) WriteGoals(w io.Writer) error {
	var missed []bench.Goal
	for _, g := range r.Goals {
		if !g.Met {
			missed = append(missed, g)
		}
	}
	if _, err := fmt.Fprintf(w, "%d of %d goals met\n", len(r.Goals)-len(missed), len(r.Goals)); err != nil || len(missed) == 0 {
		return err
	}
	return bench.WriteGoals(w, missed)
}
