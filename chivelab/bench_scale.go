package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/scale"
	"github.com/chivenet/chive/internal/lab/child"
)

// benchScaleCommand measures a relay with the load of the public network.
func benchScaleCommand() *cobra.Command {
	p := scale.Plan{Settle: 5 * time.Second, Active: scale.DefaultActive()}
	var jsonFile string
	var verbose, short, growth bool
	sizes := scale.DefaultSizes()
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Measure a relay, a cache, an authority and a directory of onion services at the public network's size",
		Long: `Load a relay of C tor's, and then one of Chive's with its default settings, in one network on loopback: links from
many addresses, and circuits of one hop on them. The figures are the memory of a link and of a circuit, the processor
time of a link's handshakes, what the relay needs while nobody asks anything of it, and what it has closed. After that,
circuits through the relay move bytes all at once: how evenly they share it, and how long a small request takes beside some.

Then both are directories of onion services; an authority of each program gets the descriptors of a network that is made up, with keys
and signatures; and a cache of each has three days of that network's consensuses, and serves bootstraps and diffs. All of it is repeated
with hostile askers beside the honest ones: links that are never read, circuits without end, descriptors as large as they may be, junk
instead of descriptors. If Chive closes, loses or refuses something honest, the command fails.

With --growth, all this is done for one size after the other, and a table shows how the costs grow; there are no hostile askers then.

To make the network takes some 12 ms of a processor for each relay.
The links are open at both ends on this machine: 6,000 with 100,000 circuits take some 2 GB, and need 7,000 open files
for each of two processes (ulimit -n).`,
		Example: "  chivelab bench scale --short\n  chivelab bench scale --links 200 --circuits 2000 --relays 9000 --hours 72\n  chivelab bench scale --growth\n  chivelab bench scale --links 6000 --circuits 100000 --json scale.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx, cancel := context.WithTimeout(cmd.Context(), 3*time.Hour)
			defer cancel()
			if p.Program == "" {
				if p.Program, err = child.Chive(); err != nil {
					return err
				}
			}
			if short {
				p.Links, p.Circuits, p.Idle, p.Settle = 200, 2000, time.Second, time.Second
				p.Relays, p.Hours, p.Bootstraps, p.Onions = 1000, 3, 20, 200
				p.Active = scale.ActivePlan{Circuits: 100, Links: 10, Far: 3, Window: 186, WarmUp: time.Second, Watch: 2 * time.Second, Bulk: 10, Pings: 50}
			}
			p.Progress = func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), s) }
			if verbose {
				p.Log = cmd.ErrOrStderr()
			}
			if growth {
				g, err := scale.Grow(ctx, p, sizes)
				if err != nil {
					return err
				}
				if err := tell(jsonFile, g, func() error { return g.WriteTable(cmd.OutOrStdout()) }); err != nil {
					return err
				}
				return g.Err()
			}
			r, err := scale.Run(ctx, p)
			if err != nil {
				return err
			}
			if err := tell(jsonFile, r, func() error { return r.WriteTable(cmd.OutOrStdout()) }); err != nil {
				return err
			}
			return r.Err()
		},
	}
	f := cmd.Flags()
	f.IntVar(&p.Links, "links", 6000, "`NUMBER` of links")
	f.IntVar(&p.Circuits, "circuits", 100_000, "`NUMBER` of circuits on all links together")
	f.IntVar(&p.Onions, "onions", 4000, "`NUMBER` of descriptors of onion services; 0: no such measurement")
	f.IntVar(&p.Relays, "relays", 9000, "`NUMBER` of relays of the network that is made up for cache and authority; 0: neither is measured")
	f.IntVar(&p.Hours, "hours", 72, "`NUMBER` of earlier consensuses that the cache has")
	f.IntVar(&p.Bootstraps, "bootstraps", 200, "`NUMBER` of bootstraps that the cache serves")
	f.IntVar(&p.Hostile, "hostile", 1, "`NUMBER` of hostile askers for each hundred honest ones; 0: none")
	f.DurationVar(&p.Idle, "idle", 20*time.Second, "`TIME` to watch the loaded relay")
	f.IntVar(&p.Active.Circuits, "active", p.Active.Circuits, "`NUMBER` of circuits that move bytes at once; 0: leave that out")
	f.IntVar(&p.Active.Links, "active-links", p.Active.Links, "`NUMBER` of links on which these circuits are")
	f.IntVar(&p.Active.Far, "active-far", p.Active.Far, "`NUMBER` of relays to which these circuits lead")
	f.IntVar(&p.Active.Window, "active-window", p.Active.Window, "`NUMBER` of cells that are under way on each of them")
	f.DurationVar(&p.Active.Watch, "active-watch", p.Active.Watch, "`TIME` in which they are compared")
	f.StringArrayVar(&p.RelayFlags, "relay-flag", nil, "a further `FLAG` of chive relay")
	f.BoolVar(&short, "short", false, "only 200 links, 2,000 circuits and 1,000 relays, to see in a minute or two whether it works")
	f.BoolVar(&growth, "growth", false, "measure one size after the other, and show what each costs")
	f.IntSliceVar(&sizes.Links, "growth-links", sizes.Links, "with --growth: `NUMBERS` of links, each with 16 circuits; 0: none")
	f.IntSliceVar(&sizes.Relays, "growth-relays", sizes.Relays, "with --growth: `NUMBERS` of relays of the network; 0: none")
	f.BoolVar(&verbose, "verbose", false, "show the log of Chive's relay")
	f.StringVar(&p.Program, "chive", "", "`PATH` of the chive to measure (default: the one beside chivelab)")
	f.StringVar(&p.Tor, "tor", "", "`PATH` of C tor (default: tor in PATH)")
	f.StringVar(&jsonFile, "json", "", "write the report to `FILE`, as JSON")
	return cmd
}
