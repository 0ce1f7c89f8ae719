package benchonion

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/chivenet/chive/chivelab/internal/bench"
	"github.com/chivenet/chive/internal/lab/measure"
)

// The project's goals, Chive's figure over C tor's unless they say otherwise.
const (
	connectSame, connectAll       = 0.6, 0.5
	throughputSame, throughputAll = 1.2, 3
	cpuShare                      = 1.0 / 3
	listenSeconds                 = 1
)

// goals compares the pairs of one network.
func (n *Network) goals() (out []bench.Goal) {
	if len(n.Pairs) == 3 {
		tor, same, all := n.Pairs[0], n.Pairs[1], n.Pairs[2]
		if tor.Connect != nil {
			out = append(out, n.connects("new circuit", tor.Connect, same.Connect, all.Connect)...)
		}
		for i, t := range tor.Throughput {
			out = append(out,
				bench.Ratio(fmt.Sprintf("%v, MB/s (%s)", t, n.Scheduler), same.Throughput[i].MBps, t.MBps, throughputSame, true),
				bench.Ratio(fmt.Sprintf("%v, MB/s (%s), all Chive", t, n.Scheduler), all.Throughput[i].MBps, t.MBps, throughputAll, true))
		}
		for i, t := range tor.Throughput {
			for k, c := range t.CPU {
				out = append(out, bench.Ratio(fmt.Sprintf("%s CPU, %v, us/cell (%s)", c.Process, t, n.Scheduler),
					same.Throughput[i].CPU[k].MicrosPerCell, c.MicrosPerCell, cpuShare, false))
			}
		}
	}
	if len(n.Burst) == 3 {
		out = append(out, n.connects("new circuits in a row", n.Burst[0], n.Burst[1], n.Burst[2])...)
	}
	if len(n.Cold) == 3 {
		out = append(out, n.connects("no descriptor", n.Cold[0], n.Cold[1], n.Cold[2])...)
	}
	for i, l := range n.Listens {
		if i > 0 {
			out = append(out, bench.Beside(fmt.Sprintf("%s to first byte, median s (%s)", l.What, n.Scheduler),
				l.FirstByte.Median/1000, n.Listens[0].FirstByte.Median/1000, listenSeconds))
		}
	}
	if len(n.Rendezvous) == 2 {
		out = append(out, bench.Ratio(fmt.Sprintf("rendezvous point CPU, us/cell (%s)", n.Scheduler), n.Rendezvous[1].PerCell, n.Rendezvous[0].PerCell, cpuShare, false))
	}
	return out
}

func (n *Network) connects(what string, tor, same, all *measure.Latency) (out []bench.Goal) {
	for _, v := range []struct {
		name           string
		tor, same, all float64
	}{{"median", tor.Median, same.Median, all.Median}, {"p95", tor.P95, same.P95, all.P95}} {
		text := fmt.Sprintf("connect, %s, %s ms (%s)", what, v.name, n.Scheduler)
		out = append(out, bench.Ratio(text, v.same, v.tor, connectSame, false), bench.Ratio(text+", all Chive", v.all, v.tor, connectAll, false))
	}
	return out
}

// String returns what the table says.
func (m CrowdMemory) String() string {
	return fmt.Sprintf("%.1f (%.1f), %.1f (%.1f)", m.Client, m.ClientAnon, m.Service, m.ServiceAnon)
}

// String returns what the table says.
func (c CrowdOfOne) String() string {
	if c.Failed != "" {
		return "not all were opened"
	}
	return fmt.Sprintf("%v after %.1f s; %v at rest", c.Open, c.Seconds, c.Rest)
}

func crowdGoals(all []Crowd) (out []bench.Goal) {
	for _, c := range all {
		tor, chive := c.Pairs[0], c.Pairs[1]
		if chive.Failed != "" {
			out = append(out, bench.Goal{What: fmt.Sprintf("RSS, %d connections: Chive did not open them all", c.Connections), Limit: 1})
			continue
		}
		for _, v := range []struct {
			when       string
			tor, chive CrowdMemory
		}{{"just opened", tor.Open, chive.Open}, {"at rest", tor.Rest, chive.Rest}} {
			out = append(out,
				bench.Ratio(fmt.Sprintf("client RSS, %d connections %s, MB", c.Connections, v.when), v.chive.Client, v.tor.Client, 1, false),
				bench.Ratio(fmt.Sprintf("service RSS, %d connections %s, MB", c.Connections, v.when), v.chive.Service, v.tor.Service, 1, false))
		}
	}
	return out
}

// floodGoals compares the floods of C tor's service and Chive's. Without proofs of work
// there is no goal for honest clients: the service cannot tell them apart.
func floodGoals(all []Flood) (out []bench.Goal) {
	for ; len(all) >= 2; all = all[2:] {
		tor, chive, how := all[0], all[1], ""
		if chive.Work {
			how = ", with proofs of work"
			share := bench.Absolute("flood: honest clients that connect within 5 s"+how, chive.InTime, floodShare, true)
			share.Tor = tor.InTime
			out = append(out, share)
		}
		out = append(out, bench.Beside("flood: growth of the service's RSS, MB"+how, chive.RSS-chive.Before, tor.RSS-tor.Before, floodMemory))
	}
	return out
}

// Write writes the report as text.
func (r *Report) Write(w io.Writer) error {
	for _, n := range r.Networks {
		if err := n.write(w); err != nil {
			return err
		}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, c := range r.Crowds {
		if i == 0 {
			fmt.Fprintln(tw, "open connections\tC tor: RSS (anonymous), MB, of client, service\tChive: the same")
		}
		fmt.Fprintf(tw, "%d\t%v\t%v\n", c.Connections, c.Pairs[0], c.Pairs[1])
	}
	for _, f := range r.Floods {
		how := ""
		if f.Work {
			how = " with proofs of work"
		}
		fmt.Fprintf(tw, "flood of %s's service%s, %d a second ordered\t%.0f a second sent, %.0f taken, %.0f refused\thonest: %d, in time %.0f %%", f.Service, how, f.Rate,
			float64(f.Attacker.Sent)/f.Seconds, float64(f.Attacker.Taken)/f.Seconds, float64(f.Attacker.Refused)/f.Seconds, f.Connects, 100*f.InTime)
		if f.Took != nil {
			fmt.Fprintf(tw, ", median %.0f ms, p95 %.0f ms", f.Took.Median, f.Took.P95)
		}
		fmt.Fprintf(tw, "\tRSS %.1f to %.1f MB, CPU %.1f s in %.0f s\n", f.Before, f.RSS, f.CPU, f.Seconds)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return bench.WriteGoals(w, r.Goals)
}

func (n *Network) write(w io.Writer) error {
	fmt.Fprintf(w, "C tor with %s; connect: over a new rendezvous\n", n.Scheduler)
	if err := measure.WriteTable(w, n.Pairs...); err != nil {
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range []struct {
		what string
		all  []*measure.Latency
	}{{"connects in a row", n.Burst}, {"connect without a descriptor", n.Cold}} {
		for i, c := range l.all {
			fmt.Fprintf(tw, "%s, %s, ms: min / median / p95 / max\t%.1f / %.1f / %.1f / %.1f\n", l.what, n.Pairs[i].Name, c.Min, c.Median, c.P95, c.Max)
		}
	}
	for _, l := range n.Listens {
		fmt.Fprintf(tw, "%s, s: published / first byte, median (max)\t%.2f (%.2f) / %.2f (%.2f), %d failed\n",
			l.What, l.Published.Median/1000, l.Published.Max/1000, l.FirstByte.Median/1000, l.FirstByte.Max/1000, l.Retries)
	}
	for _, v := range n.Rendezvous {
		fmt.Fprintf(tw, "rendezvous point of %s\t%.2f us a cell, %.1f MB/s\n", v.Relay, v.PerCell, v.MBps)
	}
	fmt.Fprintln(tw)
	return tw.Flush()
}
