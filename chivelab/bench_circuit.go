package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/benchcirc"
	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/progress"
)

// benchCircuitCommand measures the building of circuits.
func benchCircuitCommand() *cobra.Command {
	p := benchcirc.Plan{}
	var jsonFile, plots, network string
	var inProcess bool
	cmd := &cobra.Command{
		Use:   "circuit",
		Short: "Measure how long circuits take to build, stage by stage",
		Long: `Measure how long circuits take to build: real ones, over TLS, stage by stage, with the processor time of
each side.

Without --network the circuits go through relays of this command's own, on loopback, each a process: the
n-th hop is always the n-th of them. With it, paths are chosen as a client chooses them, without guards.
The first circuits open the links and are not counted. The directory is in memory, as it is in a running
client; --cold-directory fetches and verifies it for each circuit.`,
		Example: "  chivelab bench circuit --count 1000 --handshake pq768 --json pq768.json\n  chivelab bench circuit --plots figures --lengths 100",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			exe, err := os.Executable()
			if err != nil {
				return fault.New(fault.Local, "which program is this: %w", err)
			}
			if !inProcess {
				p.Command = []string{exe, "bench", "circuit", "relay"}
			}
			if network != "" {
				b, err := os.ReadFile(network)
				if err != nil {
					return fault.New(fault.Config, "network: %w", err)
				}
				if p.Network, err = netfile.Parse(network, b); err != nil {
					return err
				}
			}
			if plots != "" && p.Network == nil && !cmd.Flags().Changed("lengths") {
				p.Lengths = 100
			}
			bar, next := progress.OnTerminal(cmd.ErrOrStderr()), time.Now()
			r, err := benchcirc.Run(cmd.Context(), p, func(done, of, failed int) {
				if now := time.Now(); done == of || now.After(next) {
					next = now.Add(100 * time.Millisecond)
					bar.Draw(fmt.Sprintf("%d of %d circuits", done, of), done, of)
				}
			})
			bar.End()
			if err != nil {
				return err
			}
			err = tell(jsonFile, r, func() error { return cli.Printf(cmd, "%s", circuitTable(r)) })
			if plots != "" {
				err = errors.Join(err, r.Plot(plots))
			}
			if err != nil {
				return err
			}
			if r.Failed > 0 {
				return fault.New(fault.Network, "%d of %d circuits failed; the first: %s", r.Failed, r.Count, r.Errors[0])
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVar(&p.Count, "count", 100, "`NUMBER` of circuits")
	p.Handshake = "pq768"
	f.Var(options.Word{At: &p.Handshake, Of: benchcirc.Handshakes()}, "handshake", "`NAME`: "+strings.Join(benchcirc.Handshakes(), ", "))
	f.Var(options.Word{At: &p.Carriage, Of: []string{"A", "B"}}, "carriage", "`WAY` in which a hop gets ML-KEM: A, in its handshake (default), or B, with a rekey after it")
	f.IntVar(&p.Hops, "hops", 3, "`NUMBER` of hops, 1 to 8")
	f.BoolVar(&p.Cold, "cold-directory", false, "fetch and verify the directory for each circuit")
	f.StringVar(&network, "network", "", "network `FILE`; without it, relays of this command's own")
	f.BoolVar(&inProcess, "in-process", false, "run the command's own relays inside this process: then their processor time is not known")
	f.IntVar(&p.Lengths, "lengths", 0, "`NUMBER` of circuits of each length from 1 to 8 to build in addition (with --plots: 100)")
	f.StringVar(&jsonFile, "json", "", "write the report and its raw samples to `FILE`, as JSON")
	f.StringVar(&plots, "plots", "", "write figures and their raw samples to `DIR`, as PNG, PDF, SVG and JSON")
	cmd.AddCommand(&cobra.Command{
		Use: "relay", Short: "Run one of the measurement's relays", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return benchcirc.ServeRelay(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), os.Getpid())
		},
	})
	return cmd
}

// circuitTable is the report as text.
func circuitTable(r *benchcirc.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d circuits of %d hops, %s, carriage %s, directory %s, relays: %s; %.2f %% succeeded\n",
		r.Count, len(r.Carriage), r.Handshake, r.Carriage, r.Directory, r.Relays, r.SuccessRate)
	fmt.Fprintf(&b, "%-10s %9s %9s %9s %9s %9s %9s %9s %6s %9s %9s %9s %9s\n", "us", "mean", "median", "min", "max", "stddev", "p95", "p99", "share", "client", "relays", "hs.client", "hs.relay")
	cpu, handshakes := r.RelaysKnown()
	known := []bool{true, cpu, true, handshakes}
	line := func(name string, s benchcirc.Stats, share float64, rest ...float64) {
		fmt.Fprintf(&b, "%-10s %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f %5.1f%%", name, s.Mean, s.Median, s.Min, s.Max, s.StdDev, s.P95, s.P99, share)
		for i, v := range rest {
			if known[i] {
				fmt.Fprintf(&b, " %9.1f", v)
			} else {
				fmt.Fprintf(&b, " %9s", "-")
			}
		}
		fmt.Fprintf(&b, "\n")
	}
	for _, s := range r.Stages {
		relays := 0.0
		for _, v := range s.RelayCPU {
			relays += v
		}
		line(s.Name, s.Stats, s.Share, s.ClientCPU, relays, s.Crypto, s.RelayCrypto)
	}
	line("total", r.Stats, 100)
	whose := "client, relays"
	if !cpu && handshakes {
		whose = "client, with the relays in its process" // the two cannot be separated
	}
	fmt.Fprintf(&b, "%s: processor time by the kernel's count; hs: what each side computes for the hop's handshake\n", whose)
	return b.String()
}
