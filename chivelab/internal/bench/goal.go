package bench

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/chivenet/chive/internal/lab/measure"
)

// Goal is one number that the project wants to reach, with C tor's for comparison.
type Goal struct {
	What  string  `json:"what"`
	Chive float64 `json:"chive"`
	Tor   float64 `json:"tor,omitempty"` // 0: not measured
	// Value is compared with the limit: Chive's number over C tor's, or Chive's
	// alone.
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	Least bool    `json:"least"` // the limit is a minimum; otherwise it is a maximum
	Met   bool    `json:"met"`
}

// Ratio is a goal for Chive's number over C tor's.
func Ratio(what string, chive, tor, limit float64, least bool) Goal {
	g := Goal{What: what, Chive: chive, Tor: tor, Limit: limit, Least: least}
	if tor != 0 {
		g.Value = chive / tor
	}
	return g.judged()
}

// Absolute is a goal for Chive's number alone.
func Absolute(what string, chive, limit float64, least bool) Goal {
	return Goal{What: what, Chive: chive, Value: chive, Limit: limit, Least: least}.judged()
}

// Beside is a goal for Chive's number alone; C tor's is shown for comparison.
func Beside(what string, chive, tor, limit float64) Goal {
	return Goal{What: what, Chive: chive, Tor: tor, Value: chive, Limit: limit}.judged()
}

func (g Goal) judged() Goal {
	if g.Met = g.Value <= g.Limit; g.Least {
		g.Met = g.Value >= g.Limit
	}
	return g
}

// WriteGoals writes goals as a table.
func WriteGoals(w io.Writer, goals []Goal) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\tChive\tC tor\tratio\tgoal\t")
	for _, g := range goals {
		tor, value, limit := "-", "-", "at most"
		if g.Least {
			limit = "at least"
		}
		if g.Tor != 0 {
			tor, value = fmt.Sprintf("%.2f", g.Tor), fmt.Sprintf("%.2f", g.Chive/g.Tor)
		}
		met := "met"
		if !g.Met {
			met = "NOT MET"
		}
		fmt.Fprintf(tw, "%s\t%.2f\t%s\t%s\t%s %.2f\t%s\n", g.What, g.Chive, tor, value, limit, g.Limit, met)
	}
	return tw.Flush()
}

// clientGoals compares Chive's client with C tor's on the same relays, with conflux or without.
func clientGoals(tor, chive *measure.Report, conflux bool) []Goal {
	var out []Goal
	cpu := 0.6
	if conflux {
		cpu = 0.5
	}
	for i, c := range chive.Throughput {
		t := tor.Throughput[i]
		if c.Streams == 1 && c.Direction == "down" && !conflux {
			out = append(out, Ratio("one stream down, MB/s", c.MBps, t.MBps, 1.2, true))
		}
		if len(c.CPU) > 0 && len(t.CPU) > 0 {
			what := fmt.Sprintf("client CPU, %d %s, us/cell", c.Streams, c.Direction)
			out = append(out, Ratio(what, c.CPU[0].MicrosPerCell, t.CPU[0].MicrosPerCell, cpu, false))
		}
	}
	if chive.Build != nil && tor.Build != nil {
		out = append(out, Ratio("3-hop build, median ms", chive.Build.Total.Median, tor.Build.Total.Median, 1, false))
	}
	if chive.Ping != nil && tor.Ping != nil {
		out = append(out, Ratio("round trip, median ms", chive.Ping.Median, tor.Ping.Median, 1, false))
	}
	out = append(out, connectGoals("connect", tor.Alone(), chive.Alone())...)
	out = append(out, connectGoals("connect, its own circuit", tor.Apart, chive.Apart)...)
	out = append(out, connectGoals("connect, a crowd", tor.Crowd, chive.Crowd)...)
	if chive.Bootstrap != nil {
		out = append(out, Absolute("bootstrap, cold, s", chive.Bootstrap.Cold, 0.2, false))
	}
	if len(chive.Idle) > 0 {
		out = append(out, Absolute("RSS idle, MB", chive.Idle[0].RSS, 20, false))
	}
	return out
}

// connectGoals compares the times of one kind of connections.
func connectGoals(what string, tor, chive *measure.Connect) []Goal {
	if tor == nil || chive == nil {
		return nil
	}
	return []Goal{
		Ratio(what+", median ms to the answer", chive.Answer.Median, tor.Answer.Median, 0.9, false),
		Ratio(what+", to the first byte", chive.FirstByte.Median, tor.FirstByte.Median, 0.9, false),
	}
}
