package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chivenet/chive/chivelab/internal/wan"
	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/progress"
	"github.com/chivenet/chive/internal/version"
	"github.com/chivenet/chive/lab"
)

// wanPlan has the options that say what is compared.
type wanPlan struct {
	plan   wan.Plan
	losses []float64
	short  bool
}

// flags adds the options.
func (w *wanPlan) flags(f *pflag.FlagSet) {
	full := wan.Full()
	f.IntVar(&w.plan.Relays, "relays", full.Relays, "`NUMBER` of relays")
	f.IntVar(&w.plan.Clients, "clients", full.Clients, "`NUMBER` of clients")
	f.IntVar(&w.plan.Seeds, "seeds", full.Seeds, "`NUMBER` of seeds")
	f.Float64Var(&w.plan.Scale, "scale", full.Scale, "`FACTOR` of the relays' rates; the requests take as much longer")
	f.Float64SliceVar(&w.losses, "losses", []float64{0, .2}, "`PERCENTAGES` of packets that are lost between two hosts")
}

// get returns the plan.
func (w *wanPlan) get(f *pflag.FlagSet) (wan.Plan, error) {
	p, of := w.plan, wan.Full()
	if w.short {
		of = wan.Short()
		if !f.Changed("seeds") {
			p.Seeds = of.Seeds
		}
	}
	p.Sizes, p.Window, p.Patience, p.Requests = of.Sizes, of.Window, of.Patience, of.Requests
	p.Losses = nil
	for _, l := range w.losses {
		p.Losses = append(p.Losses, l/100)
	}
	if err := p.Check(); err != nil {
		return p, err
	}
	p.Stretch()
	return p, nil
}

// benchWanCommand compares Chive and C tor over emulated distances.
func benchWanCommand() *cobra.Command {
	r := &wan.Run{}
	w := new(wanPlan)
	cmd := &cobra.Command{
		Use:   "wan",
		Short: "Measure Chive's clients and relays and C tor's over emulated distances",
		Long: `Measure how long pages take through networks of Chive and of C tor: all C tor, Chive's clients on C tor's relays, all
Chive, and C tor's clients on Chive's relays. Twenty relays of 2.5 to 25 Mbit/s are in eight regions, 10 to 80 ms apart,
one way; thirty clients ask a server for pages of 50 KiB, 1 MiB and 5 MiB. Each node is a process in Linux namespaces of
its own, behind an emulated link; that needs root, or a kernel that lets users make namespaces.

A seed says where everybody is, which guard, middle relay and exit each client uses, and when it asks for what: that is
the same on all sides, so that they differ in the programs alone. A request does not wait for those before it. Beside the
medians and the 90th percentiles there are ratios to the network of C tor alone, with intervals of 95 %, which come from
drawing seeds and clients again. --short has one seed, whose intervals know only how clients differ,
and no pages of 5 MiB.

A run in which this machine was too slow to emulate the links is measured once more, and is not counted. If that does not
help, the report says so instead of values, and the command fails: --scale below 1 makes all relays slower, and all
requests later by as much. The whole takes some 30 minutes on two cores. The runs (runs.csv), all requests (samples.csv) and the
report (report.json) are in --out; the same command goes on where one was ended.`,
		Example: "  chivelab bench wan --short\n  chivelab bench wan --out wan-before",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if r.Plan, err = w.get(cmd.Flags()); err != nil {
				return err
			}
			self, err := child.Self()
			if err != nil {
				return err
			}
			r.Self, r.Version = []string{self, "bench", "wan"}, version.String()
			if r.Chive == "" {
				if r.Chive, err = child.Chive(); err != nil {
					return err
				}
			}
			if r.Tor, err = lab.FindTor(r.Tor); err != nil {
				return err
			}
			for _, at := range []*string{&r.Chive, &r.Tor} {
				if *at, err = filepath.Abs(*at); err != nil {
					return fault.Wrap(fault.Local, err)
				}
			}
			bar := progress.OnTerminal(cmd.ErrOrStderr())
			defer bar.End()
			r.Progress = func(p wan.Progress) {
				text := fmt.Sprintf("%s, about %v left", p.What, p.Left.Round(time.Second))
				if p.Late > 0 {
					text += fmt.Sprintf(", %d late", p.Late)
				}
				bar.Draw(text, p.Done, p.Of)
			}
			report, err := r.Do(cmd.Context())
			bar.End()
			if err != nil {
				return err
			}
			if err := cli.Printf(cmd, "%s", report.Table()); err != nil {
				return err
			}
			return report.Err()
		},
	}
	f := cmd.Flags()
	f.BoolVar(&w.short, "short", false, "finish in three minutes: one seed, fewer requests, and no pages of 5 MiB")
	f.StringVar(&r.Dir, "out", "wan", "write what is found into `DIR`")
	f.StringVar(&r.Chive, "chive", "", "`PATH` of the chive to measure (default: the one beside chivelab)")
	f.StringVar(&r.Tor, "tor", "", "`PATH` of C tor (default: tor in PATH)")
	w.flags(f)
	f.StringVar(&r.Congestion, "congestion", "", "`ALGORITHM` of TCP's on all hosts, such as reno, which Shadow has (default: this machine's)")
	f.SortFlags = false
	cmd.AddCommand(benchWanWriteCommand(), benchWanReadCommand(), benchWanCompareCommand(), &cobra.Command{
		Use: "client", Short: "Be a client of the comparison", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return wan.ServeClient(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}, &cobra.Command{
		Use: "target ADDR", Short: "Be the server of the comparison", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return wan.ServeTarget(cmd.Context(), args[0]) },
	}, &cobra.Command{
		Use: "ask FILE OUT", Short: "Be a client in the simulator", Hidden: true, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return wan.Ask(cmd.Context(), args[0], args[1]) },
	})
	return cmd
}
