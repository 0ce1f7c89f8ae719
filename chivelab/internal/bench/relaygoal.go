package bench

import (
	"fmt"

	"github.com/chivenet/chive/internal/lab/measure"
)

// relayGoals compares a path of Chive's relays, with C tor's client (mixed) and
// with Chive's own (chive), with a path of C tor's.
func relayGoals(scheduler string, tor, mixed, chive *measure.Report) []Goal {
	var out []Goal
	for i, c := range mixed.Throughput {
		t := tor.Throughput[i]
		if c.Direction == "down" && (c.Streams == 1 || c.Circuits > 1) && c.Circuits != 1 {
			what := fmt.Sprintf("%v, MB/s (%s)", c, scheduler)
			out = append(out, Ratio(what+", all-Chive path", chive.Throughput[i].MBps, t.MBps, 3, true))
		}
		for k := range c.CPU {
			if k == 0 || k >= len(t.CPU) {
				continue // the client is C tor's in both
			}
			what := fmt.Sprintf("%s CPU, %v, us/cell (%s)", c.CPU[k].Process, c, scheduler)
			out = append(out, Ratio(what, c.CPU[k].MicrosPerCell, t.CPU[k].MicrosPerCell, 1.0/3, false))
		}
		if c.Streams >= 200 && len(c.Memory) > 0 && len(t.Memory) == len(c.Memory) {
			last := len(c.Memory) - 1
			out = append(out, Beside(fmt.Sprintf("exit RSS, %v, MB (%s)", c, scheduler), c.Memory[last].RSS, t.Memory[last].RSS, 60))
		}
	}
	if m, t := mixed.Loaded, tor.Loaded; m != nil && t != nil {
		what := fmt.Sprintf("round trip beside %d circuits, %%s, ms (%s)", m.Circuits, scheduler)
		for _, l := range []struct {
			name string
			m, t float64
		}{{"median", m.Ping.Median, t.Ping.Median}, {"p95", m.Ping.P95, t.Ping.P95}, {"p99", m.Ping.P99, t.Ping.P99}} {
			out = append(out, Ratio(fmt.Sprintf(what, l.name), l.m, l.t, 1, false))
		}
	}
	return out
}

// onionGoals compares Chive's circuits of one hop with C tor's. all has both for
// each handshake, C tor's first, and after them what only Chive's has.
func onionGoals(scheduler string, all []Onionskins) []Goal {
	var out []Goal
	half := len(all) / 2
	for i, t := range all[:half] {
		out = append(out, Ratio(fmt.Sprintf("one-hop circuits per core and s, %s (%s)", t.Handshake, scheduler), all[half+i].PerSecond, t.PerSecond, 1, true))
	}
	return out
}
