package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/flood"
	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/options"
)

// benchFloodCommand attacks relays on purpose.
func benchFloodCommand() *cobra.Command {
	p := flood.Plan{}
	var jsonFile string
	var verbose, short bool
	var memory int64
	cmd := &cobra.Command{
		Use:   "flood",
		Short: "Attack a relay and an authority of Chive's and of C tor's, and measure an honest client",
		Long: `Attack a relay and an authority of Chive's, and then C tor's, with the same floods in one network, on loopback.
An honest client measures round trips of 64 bytes, downloads (its demand is 4 MB per second) and new links with a
circuit: before each flood, during it, and after it until the round trip is as before.

An attacker is a separate process (nice 10, one processor at most) with a budget of connections and of messages per
second. It uses --sources addresses, one run for each number; the defences know none of them from
earlier. The consensus has the public network's parameters against denial of service.

The floods: ` + strings.Join(flood.Names(), ", ") + `.

The goals: no process ends; the relay's memory stays below its bound plus 64 MB; the 95th percentile of round trips is
at most 5 times the idle one during a flood, and downloads get a third of their throughput before it; within 10 seconds
after the flood the percentile is at most 2 times the idle one. Missed goals are listed. The exit code is 1 only if a
process of the network ended, or a run was not possible.`,
		Example: "  chivelab bench flood --short\n  chivelab bench flood --only unread,key-update --sources 50 --json flood.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if p.Before <= 0 || p.During <= 0 || p.After <= 0 || memory < 1 {
				return fault.New(fault.Config, "--before, --during, --after and --memory are above 0")
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Hour)
			defer cancel()
			self, err := child.Self()
			if err != nil {
				return err
			}
			p.Attacker = []string{self, "bench", "flood", "attack"}
			if p.Program == "" {
				if p.Program, err = child.Chive(); err != nil {
					return err
				}
			}
			if short {
				p.Sources, p.Before, p.During, p.After = []int{20}, time.Second, 2*time.Second, 3*time.Second
				if len(p.Floods) == 0 {
					p.Floods = []string{"create-ntor", "tls-silent", "key-update", "auth-announce"}
				}
			}
			p.Memory = memory << 20
			p.Progress = func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), s) }
			if verbose {
				p.Log = cmd.ErrOrStderr()
			}
			r, err := flood.Run(ctx, p)
			if r == nil {
				return err
			}
			if werr := writeFlood(cmd, r, jsonFile); err == nil {
				err = werr
			}
			if err == nil && len(r.Died) > 0 {
				err = fault.New(fault.Local, "processes ended: %s", strings.Join(r.Died, ", "))
			}
			return err
		},
	}
	f := cmd.Flags()
	f.Var(&options.WordList{At: &p.Floods, Of: flood.Names()}, "only", "`LIST` of floods (default: all)")
	f.Var(&options.WordList{At: &p.Victims, Of: flood.Victims}, "victims", "`LIST` of victims: Chive, C tor (default: both)")
	f.IntSliceVar(&p.Sources, "sources", []int{1, 50}, "`NUMBERS` of addresses to attack from")
	f.DurationVar(&p.Before, "before", 4*time.Second, "`TIME` to measure before a flood")
	f.DurationVar(&p.During, "during", 8*time.Second, "`TIME` that a flood lasts")
	f.DurationVar(&p.After, "after", 10*time.Second, "the most `TIME` to wait after a flood")
	f.Int64Var(&memory, "memory", 256, "`MiB` of memory for each victim")
	f.StringArrayVar(&p.RelayFlags, "relay-flag", nil, "a further `FLAG` of chive relay")
	f.BoolVar(&short, "short", false, "only four floods in two minutes, to see whether it works; the numbers mean little")
	f.BoolVar(&verbose, "verbose", false, "show the log of Chive's nodes")
	f.StringVar(&p.Program, "chive", "", "`PATH` of the chive to attack (default: the one beside chivelab)")
	f.StringVar(&p.Tor, "tor", "", "`PATH` of C tor (default: tor in PATH)")
	f.StringVar(&jsonFile, "json", "", "write the report to `FILE`, as JSON")
	cmd.AddCommand(&cobra.Command{
		Use: "attack", Short: "Run one of the bench's attackers", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flood.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	})
	return cmd
}

// writeFlood writes the JSON and the tables.
func writeFlood(cmd *cobra.Command, r *flood.Report, jsonFile string) error {
	return tell(jsonFile, r, func() error {
		if err := r.WriteTable(cmd.OutOrStdout()); err != nil {
			return err
		}
		cli.Printf(cmd, "\n")
		return r.WriteGoals(cmd.OutOrStdout())
	})
}
