package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/scale"
)

// benchScaleCommand measures a relay with the load of the public network.
func benchScaleCommand() *cobra.Command {
	p := scale.Plan{Settle: 5 * time.Second, Active: scale.DefaultActive()}
	var jsonFile string
	var verbose, short bool
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Measure a relay with thousands of links and a hundred thousand circuits",
		Long: `Load a relay of C tor's, and then one of Chive's with its default settings, in one network on loopback: links from
many addresses, and circuits of one hop on them. The figures are the memory of a link and of a circuit, the processor
time of a link's handshakes, what the relay needs while nobody asks anything of it, and what it has closed. After that,
circuits through the relay move bytes all at once: how evenly they share it, and how long a small request takes beside some.

The links are open at both ends on this machine: 6,000 with 100,000 circuits take some 2 GB, and need 7,000 open files
for each of two processes (ulimit -n).`,
		Example: "  chivelab bench scale --short\n  chivelab bench scale --links 6000 --circuits 100000 --json scale.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Hour)
			defer cancel()
			if p.Program == "" {
				if p.Program, err = child.Chive(); err != nil {
					return err
				}
			}
			if short {
				p.Links, p.Circuits, p.Idle = 200, 2000, 2*time.Second
				p.Active = scale.ActivePlan{Circuits: 100, Links: 10, Far: 3, Window: 186, WarmUp: time.Second, Watch: 2 * time.Second, Bulk: 10, Pings: 50}
			}
			p.Progress = func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), s) }
			if verbose {
				p.Log = cmd.ErrOrStderr()
			}
			r, err := scale.Run(ctx, p)
			if err != nil {
				return err
			}
			return tell(jsonFile, r, func() error { return r.WriteTable(cmd.OutOrStdout()) })
		},
	}
	f := cmd.Flags()
	f.IntVar(&p.Links, "links", 6000, "`NUMBER` of links")
	f.IntVar(&p.Circuits, "circuits", 100_000, "`NUMBER` of circuits on all links together")
	f.DurationVar(&p.Idle, "idle", 20*time.Second, "`TIME` to watch the loaded relay")
	f.IntVar(&p.Active.Circuits, "active", p.Active.Circuits, "`NUMBER` of circuits that move bytes at once; 0: leave that out")
	f.IntVar(&p.Active.Links, "active-links", p.Active.Links, "`NUMBER` of links on which these circuits are")
	f.IntVar(&p.Active.Far, "active-far", p.Active.Far, "`NUMBER` of relays to which these circuits lead")
	f.IntVar(&p.Active.Window, "active-window", p.Active.Window, "`NUMBER` of cells that are under way on each of them")
	f.DurationVar(&p.Active.Watch, "active-watch", p.Active.Watch, "`TIME` in which they are compared")
	f.StringArrayVar(&p.RelayFlags, "relay-flag", nil, "a further `FLAG` of chive relay")
	f.BoolVar(&short, "short", false, "only 200 links and 2,000 circuits, to see whether it works")
	f.BoolVar(&verbose, "verbose", false, "show the log of Chive's relay")
	f.StringVar(&p.Program, "chive", "", "`PATH` of the chive to measure (default: the one beside chivelab)")
	f.StringVar(&p.Tor, "tor", "", "`PATH` of C tor (default: tor in PATH)")
	f.StringVar(&jsonFile, "json", "", "write the report to `FILE`, as JSON")
	return cmd
}
