package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/bench"
	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/measure"
	"github.com/chivenet/chive/internal/options"
)

// benchRelayCommand measures relays.
func benchRelayCommand() *cobra.Command {
	p := bench.RelayPlan{Measure: measure.Plan{Streams: []int{1, 200}, Circuits: []int{10}, Loaded: 10, LoadedPings: 300, Bytes: 100 << 20, Pings: 500, Rounds: 3}}
	var jsonFile string
	var noNamespace, verbose, short bool
	var megabytes int64
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Measure Chive's relays and C tor's",
		Long: `Measure a path of three relays and one of C tor's, in one network of C tor's with C tor's client, for each
of C tor's schedulers: throughput of streams and of circuits, round trips on an idle path and while other
circuits download, memory, each relay's processor time per cell, and circuits of one hop per second of it; and
Chive's client on Chive's relays. As root on Linux that happens in a network namespace, where the loopback
acknowledges at once.

A value of 0 leaves a measurement out: --streams 0, --circuits 0, --loaded 0, --pings 0, --onionskins 0.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if p.Limit <= 0 {
				return fault.New(fault.Config, "--limit is above 0")
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), benchTime)
			defer cancel()
			if !noNamespace {
				if done, err := inNamespace(ctx, cmd); done {
					return err
				}
			}
			if p.Program == "" {
				which := child.Chive
				if p.Profiles != "" {
					which = child.Self // chive writes no profiles
				}
				if p.Program, err = which(); err != nil {
					return err
				}
			}
			if short {
				p.Measure = measure.Plan{Streams: []int{1}, Circuits: []int{2}, Loaded: 2, LoadedPings: 20, Pings: 20}
				p.Schedulers, p.Onionskins, megabytes = p.Schedulers[:min(1, len(p.Schedulers))], 100, 2
			}
			p.Measure.Bytes = megabytes << 20
			p.Progress = func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), s) }
			if verbose {
				p.Log = cmd.ErrOrStderr()
			}
			r, err := bench.Relay(ctx, p)
			if err != nil {
				return err
			}
			return tell(jsonFile, r, func() error {
				if err := measure.WriteTable(cmd.OutOrStdout(), r.Reports...); err != nil {
					return err
				}
				if len(r.Onionskins) > 0 {
					cli.Printf(cmd, "\n")
					if err := bench.WriteOnionskins(cmd.OutOrStdout(), r.Onionskins); err != nil {
						return err
					}
				}
				cli.Printf(cmd, "\n")
				return bench.WriteGoals(cmd.OutOrStdout(), r.Goals)
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&noNamespace, "no-namespace", false, "use this machine's own loopback")
	f.BoolVar(&verbose, "verbose", false, "show the relays' logs")
	f.StringVar(&p.Program, "chive", "", "`PATH` of the chive to measure (default: the one beside chivelab)")
	f.StringVar(&p.Tor, "tor", "", "`PATH` of C tor (default: tor in PATH)")
	p.Schedulers = []string{"Vanilla", "KIST"}
	f.Var(&options.WordList{At: &p.Schedulers, Of: bench.Schedulers}, "schedulers", "C tor's `SCHEDULERS` to compare with")
	f.IntSliceVar(&p.Measure.Streams, "streams", p.Measure.Streams, "`NUMBERS` of streams")
	f.IntSliceVar(&p.Measure.Circuits, "circuits", p.Measure.Circuits, "`NUMBERS` of circuits, with a stream on each")
	f.IntVar(&p.Measure.Loaded, "loaded", p.Measure.Loaded, "`NUMBER` of circuits that download while round trips are measured")
	f.IntVar(&p.Measure.LoadedPings, "loaded-pings", p.Measure.LoadedPings, "`NUMBER` of those round trips")
	f.IntVar(&p.Onionskins, "onionskins", 5000, "`NUMBER` of circuits of one hop, for each handshake")
	f.DurationVar(&p.Limit, "limit", 5*time.Minute, "the most `TIME` that one path's measurements may take")
	f.BoolVar(&short, "short", false, "only check in seconds that everything works; the numbers mean nothing")
	f.Int64Var(&megabytes, "megabytes", p.Measure.Bytes>>20, "`MiB` that each transfer moves")
	f.IntVar(&p.Measure.Rounds, "rounds", p.Measure.Rounds, "`TIMES` that each transfer is done; the median counts")
	f.IntVar(&p.Measure.Pings, "pings", p.Measure.Pings, "`NUMBER` of round trips")
	f.StringVar(&p.Profiles, "profiles", "", "write CPU profiles of the relays to `DIR`: for go tool pprof")
	f.StringArrayVar(&p.Flags, "relay-flag", nil, "a further `FLAG` of chive relay")
	f.StringVar(&jsonFile, "json", "", "write the report to `FILE`, as JSON")
	return cmd
}
