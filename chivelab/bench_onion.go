package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/bench"
	"github.com/chivenet/chive/chivelab/internal/benchonion"
	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/measure"
	"github.com/chivenet/chive/internal/options"
)

// benchOnionCommand measures onion services.
func benchOnionCommand() *cobra.Command {
	p := benchonion.Plan{
		Measure: measure.Plan{Streams: []int{1}, Bytes: 20 << 20, Pings: 300, Connects: 40, Pause: 400 * time.Millisecond, Rounds: 3}}
	var jsonFile string
	var noNamespace, verbose, short bool
	var megabytes, relayed int64
	cmd := &cobra.Command{
		Use:   "onion",
		Short: "Measure Chive's onion services and C tor's",
		Long: `Measure an onion service together with its client, in one run: both C tor's, over relays of C tor's; both Chive's,
over the same relays; and both Chive's in a network that is all Chive's. This is repeated for each of C tor's schedulers.

The measurements: the time to connect over a new rendezvous, with the service's descriptor and without it; throughput
of one stream each way, with the processor time of client and service for each cell; round trips; the time from the
start of a service to the first byte that C tor's client gets; the processor time of a rendezvous point for each cell;
the memory of client and service with many open connections, at once and at rest; and how many honest clients connect
while attackers flood the service with introductions, first without proofs of work and then with them. As root on Linux
that happens in a network namespace, where the loopback acknowledges at once.

A value of 0 leaves a measurement out: --streams 0, --connects 0, --cold 0, --listens 0, --relayed 0, --crowds 0,
--flood 0s.`,
		Example: "  chivelab bench onion --short\n  chivelab bench onion --schedulers Vanilla --json bench-onion.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx, cancel := context.WithTimeout(cmd.Context(), benchTime)
			defer cancel()
			if !noNamespace {
				if done, err := inNamespace(ctx, cmd); done {
					return err
				}
			}
			self, err := child.Self()
			if err != nil {
				return err
			}
			p.Crowd, p.Attacker = []string{self, "bench", "onion", "crowd"}, []string{self, "bench", "onion", "attack"}
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
				p.Measure.Rounds, p.Measure.Connects, p.Measure.Pings, p.Cold, p.Listens, megabytes, relayed = 1, 20, 100, 4, 2, 10, 10
				p.Crowds, p.FloodTime = p.Crowds[:1], min(p.FloodTime, 5*time.Second)
			}
			if p.Profiles != "" {
				if err := os.MkdirAll(p.Profiles, 0o755); err != nil {
					return fault.Wrap(fault.Local, err)
				}
			}
			p.Measure.Bytes, p.Relayed = megabytes<<20, relayed<<20
			p.Progress = func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), time.Now().Format(time.TimeOnly), s) }
			if verbose {
				p.Log = cmd.ErrOrStderr()
			}
			r, err := benchonion.Run(ctx, p)
			if err != nil {
				return err
			}
			return tell(jsonFile, r, func() error {
				if err := r.Write(cmd.OutOrStdout()); err != nil {
					return err
				}
				return cli.Printf(cmd, "\n")
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&noNamespace, "no-namespace", false, "use this machine's own loopback")
	f.BoolVar(&verbose, "verbose", false, "show the logs of Chive's nodes")
	f.BoolVar(&short, "short", false, "finish in three minutes: fewer of everything")
	f.StringVar(&p.Program, "chive", "", "`PATH` of the chive to measure (default: the one beside chivelab)")
	f.StringVar(&p.Tor, "tor", "", "`PATH` of C tor (default: tor in PATH)")
	p.Schedulers = []string{"Vanilla", "KIST"}
	f.Var(&options.WordList{At: &p.Schedulers, Of: bench.Schedulers}, "schedulers", "C tor's `SCHEDULERS` to compare with")
	f.IntSliceVar(&p.Measure.Streams, "streams", p.Measure.Streams, "`NUMBERS` of streams")
	f.Int64Var(&megabytes, "megabytes", p.Measure.Bytes>>20, "`MiB` that each transfer moves")
	f.IntVar(&p.Measure.Rounds, "rounds", p.Measure.Rounds, "`TIMES` that each transfer is done; the median counts")
	f.IntVar(&p.Measure.Pings, "pings", p.Measure.Pings, "`NUMBER` of round trips")
	f.IntVar(&p.Measure.Connects, "connects", p.Measure.Connects, "`NUMBER` of connections, each over a new rendezvous")
	f.DurationVar(&p.Measure.Pause, "pause", p.Measure.Pause, "`TIME` before each of them; the same number follows without it")
	f.IntVar(&p.Cold, "cold", 12, "`NUMBER` of connections without a descriptor, each to a new service")
	f.IntVar(&p.Listens, "listens", 6, "`NUMBER` of services whose start is timed")
	f.Int64Var(&relayed, "relayed", 20, "`MiB` that move through a rendezvous point")
	f.IntSliceVar(&p.Crowds, "crowds", []int{1000, 10000}, "`NUMBERS` of open connections")
	f.DurationVar(&p.Rest, "rest", 20*time.Second, "`TIME` after which the memory of open connections is measured once more")
	f.DurationVar(&p.FloodTime, "flood", 20*time.Second, "`TIME` that introductions flood a service")
	f.IntVar(&p.FloodRate, "flood-rate", 10000, "`NUMBER` of them per second, at most")
	f.StringVar(&p.Profiles, "profiles", "", "write CPU profiles of Chive's clients and services to `DIR`: for go tool pprof")
	f.StringVar(&jsonFile, "json", "", "write the report to `FILE`, as JSON")
	cmd.AddCommand(&cobra.Command{
		Use: "crowd", Short: "Hold open connections", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return benchonion.HoldCrowd(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	})
	cmd.AddCommand(&cobra.Command{
		Use: "attack", Short: "Run the bench's attacker", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return benchonion.Attack(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	})
	return cmd
}
