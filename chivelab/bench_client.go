package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/bench"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/measure"
	"github.com/chivenet/chive/internal/lab/netns"
)

// benchTime bounds a whole comparison.
const benchTime = 20 * time.Minute

// benchClientCommand measures the client.
func benchClientCommand() *cobra.Command {
	p := bench.ClientPlan{Measure: measure.DefaultPlan()}
	var jsonFile string
	var beside, noNamespace bool
	var megabytes int64
	cmd := &cobra.Command{
		Use:   "client",
		Short: "Measure the client on a network, or together with C tor's client",
		Long: `Measure chive proxy: throughput both ways for each number of streams, round trips of 64 bytes, the time
to connect, to build circuits and to bootstrap, memory, and processor time per cell.

With --network, on that network, whose exits must reach this machine's loopback. With --beside-tor, on a
network of C tor's relays that is made for it, together with C tor's own client on the same three
relays; as root on Linux that happens in a network namespace, where the loopback acknowledges at once.

--conflux gives both clients conflux sets: two legs with a guard and a middle relay each, and one exit.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if beside == (p.NetworkFile != "") {
				return fault.New(fault.Config, "bench client: give either --network FILE or --beside-tor")
			}
			if p.Conflux && !beside {
				return fault.New(fault.Config, "bench client: --conflux needs --beside-tor")
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), benchTime)
			defer cancel()
			if beside && !noNamespace {
				if done, err := inNamespace(ctx, cmd); done {
					return err
				}
			}
			if p.Program == "" {
				if p.Program, err = child.Chive(); err != nil {
					return err
				}
			}
			p.Measure.Bytes = megabytes << 20
			p.Progress = func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), s) }
			p.Measure.Progress = p.Progress
			r, err := bench.Client(ctx, p)
			if err != nil {
				return err
			}
			return tell(jsonFile, r, func() error {
				cli.Printf(cmd, "%s\n\n", r.Network)
				err := measure.WriteTable(cmd.OutOrStdout(), r.Reports...)
				if err == nil && len(r.Goals) > 0 {
					cli.Printf(cmd, "\n")
					err = bench.WriteGoals(cmd.OutOrStdout(), r.Goals)
				}
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.NetworkFile, "network", "", "network `FILE`")
	f.BoolVar(&beside, "beside-tor", false, "make a network of C tor, and measure C tor's client too")
	f.BoolVar(&noNamespace, "no-namespace", false, "use this machine's own loopback")
	f.StringVar(&p.Program, "chive", "", "`PATH` of the chive to measure (default: the one beside chivelab)")
	f.StringVar(&p.Tor, "tor", "", "`PATH` of C tor (default: tor in PATH)")
	f.IntSliceVar(&p.Measure.Streams, "streams", p.Measure.Streams, "`NUMBERS` of streams")
	f.Int64Var(&megabytes, "megabytes", p.Measure.Bytes>>20, "`MiB` that each transfer moves")
	f.IntVar(&p.Measure.Rounds, "rounds", p.Measure.Rounds, "`TIMES` that each transfer is done; the median counts")
	f.IntVar(&p.Measure.Pings, "pings", p.Measure.Pings, "`NUMBER` of round trips")
	f.IntVar(&p.Measure.Connects, "connects", p.Measure.Connects, "`NUMBER` of connections")
	f.IntVar(&p.Measure.Apart, "apart", 50, "`NUMBER` of connections on a circuit of their own")
	f.IntVar(&p.Measure.Crowd, "crowd", 10, "`NUMBER` of connections at once, until there were as many as --connects says")
	f.BoolVar(&p.Conflux, "conflux", false, "let both clients use conflux sets of two legs")
	f.IntVar(&p.Builds, "builds", 100, "`NUMBER` of circuits to build")
	f.StringArrayVar(&p.Flags, "proxy-flag", nil, "a further `FLAG` of chive proxy, such as --cgo=off")
	f.StringVar(&jsonFile, "json", "", "write the report to `FILE`, as JSON")
	return cmd
}

// inNamespace runs this command again in a network namespace, if it is not in
// one and can make one; it reports whether it ran.
func inNamespace(ctx context.Context, cmd *cobra.Command) (done bool, err error) {
	if netns.Inside() {
		return false, nil
	}
	if err := netns.Available(); err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "NOT in a namespace, delayed acknowledgements count: %v\n", err)
		return false, nil
	}
	self, err := child.Self()
	if err != nil {
		return true, err
	}
	ns, err := netns.New(ctx, fmt.Sprint("chive-bench-", os.Getpid()))
	if err != nil {
		return true, err
	}
	defer ns.Close()
	again := ns.Command(ctx, self, os.Args[1:]...)
	again.Cancel = func() error { return again.Process.Signal(os.Interrupt) }
	again.WaitDelay = time.Minute
	again.Stdout, again.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	err = again.Run()
	if _, ok := err.(*exec.ExitError); ok { // it has told why
		return true, cli.ExitError{Code: childCode(again.ProcessState)}
	}
	return true, fault.Wrap(fault.Local, err)
}

// tell writes a report to its file and then to the output, each whatever becomes of the other: the
// disk may be full, and perhaps nobody reads any more.
func tell(file string, report any, print func() error) error {
	return errors.Join(writeReport(file, report), print())
}

// writeReport writes a report as JSON to a file, if one is named.
func writeReport(file string, report any) error {
	if file == "" {
		return nil
	}
	b, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	if err := atomicfile.Write(file, append(b, '\n'), atomicfile.Report); err != nil {
		return fault.New(fault.Local, "report: %w", err)
	}
	return nil
}
