package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/benchcontrol"
	"github.com/chivenet/chive/internal/lab/child"
)

// benchControlCommand measures control ports.
func benchControlCommand() *cobra.Command {
	var p benchcontrol.Plan
	var jsonFile string
	var noNamespace bool
	var megabytes int64
	cmd := &cobra.Command{
		Use:   "control",
		Short: "Measure the control ports of chive tor and of C tor",
		Long: `Measure chive tor and C tor as controllers see them, in turns: two clients of one network of C tor, with the same torrc.

The measurements: how long SIGNAL HALT takes to end a program that is connected; round trips of GETINFO; events at a rate,
with several readers that read all of them; memory; and the goodput of one stream without a controller and with one that
listens to all events but DEBUG. As root on Linux that happens in a network namespace, where the loopback acknowledges at once.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx, cancel := context.WithTimeout(cmd.Context(), benchTime)
			defer cancel()
			p.Bytes = megabytes << 20
			if err := p.Check(); err != nil { // here, and not only in a namespace
				return err
			}
			if !noNamespace {
				if done, err := inNamespace(ctx, cmd); done {
					return err
				}
			}
			if p.Program == "" {
				if p.Program, err = child.Chive(); err != nil {
					return err
				}
			}
			p.Progress = func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), time.Now().Format(time.TimeOnly), s) }
			r, err := benchcontrol.Run(ctx, p)
			if err != nil {
				return err
			}
			return tell(jsonFile, r, func() error { return r.Write(cmd.OutOrStdout()) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.Program, "chive", "", "`PATH` of the chive to measure (default: the one beside chivelab)")
	f.StringVar(&p.Tor, "tor", "", "`PATH` of C tor (default: tor in PATH)")
	f.BoolVar(&noNamespace, "no-namespace", false, "use this machine's own loopback")
	f.IntVar(&p.Halts, "halts", 20, "`TIMES` that each program is started and ended")
	f.IntVar(&p.Rounds, "rounds", 15, "`ROUNDS` of questions and transfers; the median counts")
	f.IntVar(&p.Asks, "asks", 500, "`NUMBER` of questions in a round")
	f.IntVar(&p.Rate, "rate", 10_000, "`EVENTS` a second")
	f.IntVar(&p.Readers, "readers", 4, "`NUMBER` of connections that read events")
	f.DurationVar(&p.EventTime, "event-time", 2*time.Second, "`TIME` of a round of events")
	f.Int64Var(&megabytes, "megabytes", 20, "`MiB` that each transfer moves")
	f.StringVar(&jsonFile, "json", "", "write the report to `FILE`, as JSON")
	return cmd
}
