package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/ftebench"
	"github.com/chivenet/chive/fte"
	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/options"
)

// benchCommand is the parent of the measurements.
func benchCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "bench", Short: "Measure this machine with Chive on it", Args: cobra.NoArgs}
	cmd.AddCommand(benchCircuitCommand(), benchControlCommand(), benchFTECommand(), benchClientCommand(), benchRelayCommand(), benchFloodCommand(), benchOnionCommand(), benchScaleCommand(), benchWanCommand())
	return cmd
}

// benchFTECommand measures format-transforming proxies.
func benchFTECommand() *cobra.Command {
	p := ftebench.Plan{}
	var jsonFile, plots string
	cmd := &cobra.Command{
		Use:   "fte",
		Short: "Measure format-transforming proxies and the bare machine for comparison",
		Long: `Measure format-transforming proxies and the bare machine, over loopback: throughput for each
number of connections, processor time and memory of both sides, expansion, round trip, and how many
users one core of a server carries.

The kinds of proxies are classic, bulk, strict (Chive's), fteproxy (the original program, with --fteproxy) and
obfs4 (obfs4proxy as Tor runs it), each for all of --formats, or for one as kind/format. Other projects' programs that
are installed are measured in the same run, and ratios to them are reported. With --iperf, iperf 2 also uploads through
each pair, and its server counts.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if p.Chive, err = os.Executable(); err != nil {
				return fault.New(fault.Local, "which program is this: %w", err)
			}
			r, err := ftebench.Run(cmd.Context(), p, func(line string) { cli.Printf(cmd, "%s\n", line) })
			if err != nil {
				return err
			}
			err = tell(jsonFile, r, func() error { return cli.Printf(cmd, "%s", fteTable(r)) })
			if plots != "" {
				err = errors.Join(err, r.Plot(plots))
			}
			if err != nil {
				return err
			}
			for _, pr := range r.Pairs {
				if pr.Failed != "" {
					return fault.New(fault.Local, "%s %s failed: %s", pr.Kind, pr.Format, pr.Failed)
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.IntSliceVar(&p.Connections, "connections", []int{1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}, "`NUMBERS` of connections")
	f.StringSliceVar(&p.Formats, "formats", []string{fte.DefaultFormat, "base64", "words"}, "`FORMATS`, without -request and -response")
	p.Kinds = []string{ftebench.Classic, ftebench.Bulk, ftebench.Strict}
	f.Var(&options.WordList{At: &p.Kinds, Of: ftebench.Kinds, Base: ftebench.KindOf}, "kinds", "`KINDS` of proxies: classic, bulk, strict, fteproxy, obfs4; kind/format for one format only")
	f.DurationVar(&p.Time, "time", 2*time.Second, "`TIME` that each throughput is measured, each way")
	f.IntVar(&p.Pings, "pings", 300, "`NUMBER` of round trips of 64 bytes")
	f.Float64Var(&p.Demand, "demand", 1, "`MBITS` that one user wants, in Mbit/s on average")
	f.StringVar(&p.Fteproxy, "fteproxy", "", "`PATH` of fteproxy 0.3, to measure it too")
	f.StringVar(&p.Obfs4proxy, "obfs4proxy", "obfs4proxy", "`PATH` of obfs4proxy, to measure it too")
	f.StringVar(&p.Iperf, "iperf", "", "`PATH` of iperf 2, to measure uploads with it too")
	f.StringVar(&jsonFile, "json", "", "write the report to `FILE`, as JSON")
	f.StringVar(&plots, "plots", "", "write the curves to `DIR`, as PNG, PDF and SVG")
	return cmd
}

// fteTable is the report as text, without the lines that told of the progress.
func fteTable(r *ftebench.Report) string {
	var b strings.Builder
	for _, pr := range r.Pairs {
		if pr.Failed != "" {
			continue
		}
		fmt.Fprintf(&b, "%-8s %-18s expansion %.2f up, %.2f down; round trip %.2f ms (95%%: %.2f); one core carries %.0f users of %g Mbit/s\n",
			pr.Kind, pr.Format, pr.ExpansionUp, pr.ExpansionDown, pr.PingP50, pr.PingP95, pr.UsersPerCore, r.Demand)
	}
	for _, q := range r.Ratios {
		fmt.Fprintf(&b, "%-8s %-18s %4d connections: %.2f times %s up, %.2f down\n", q.Kind, q.Format, q.Connections, q.Up, q.To, q.Down)
	}
	return b.String()
}
