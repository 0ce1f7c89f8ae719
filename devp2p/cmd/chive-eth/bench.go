package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/devp2p/internal/bench"
	"github.com/chivenet/chive/program/commandline"
)

// benchCommand measures connections, speed and peers on a network of its own.
func benchCommand() *cobra.Command {
	var kinds []string
	var short bool
	var file, figures string
	opts := bench.Defaults()
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure connections over onions, and what peers cost",
		Long: "bench starts networks of relays on this machine, and measures in one run: a plain\n" +
			"connection, Chive's onions, and those of a stock tor, which must be installed.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if short {
				quick := bench.Short()
				for name, set := range map[string]func(){
					"connections": func() { opts.Connections = quick.Connections }, "bytes": func() { opts.Bytes = quick.Bytes },
					"rounds": func() { opts.Rounds = quick.Rounds }, "peers": func() { opts.Peers = quick.Peers }, "idle": func() { opts.Idle = quick.Idle },
				} {
					if !cmd.Flags().Changed(name) {
						set()
					}
				}
			}
			opts.Kinds = nil
			for _, k := range kinds {
				opts.Kinds = append(opts.Kinds, bench.Kind(k))
			}
			if !slices.IsSorted(opts.Peers) || len(opts.Peers) > 0 && (opts.Peers[0] < 1 || opts.Peers[len(opts.Peers)-1] > bench.MaxPeers) {
				return fmt.Errorf("--peers: want rising numbers from 1 to %d", bench.MaxPeers)
			}
			var err error
			if opts.Program, err = os.Executable(); err != nil {
				return err
			}
			if done, err := bench.InNamespace(cmd.Context(), opts.Program, cmd.OutOrStdout(), cmd.ErrOrStderr()); done {
				return err
			}
			opts.Args = []string{"bench-node"}
			opts.Progress = func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), s) }
			results, err := bench.Run(cmd.Context(), opts)
			if err != nil {
				return err
			}
			if file != "" {
				var b strings.Builder
				if err := bench.WriteJSON(&b, results); err != nil {
					return err
				}
				if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
					return err
				}
			}
			if figures != "" {
				if err := os.MkdirAll(figures, 0o755); err != nil {
					return err
				}
				if err := bench.WriteFigures(figures, results); err != nil {
					return err
				}
			}
			return bench.WriteText(cmd.OutOrStdout(), results)
		},
	}
	f := cmd.Flags()
	kinds = kindNames()
	f.Var(commandline.Words(&kinds, kindNames()), "kinds", "`KINDS` to measure: tor is over the same relays as chive, tor-vanilla over stock relays")
	f.BoolVar(&short, "short", false, "a quick look: less of everything")
	f.StringVar(&file, "json", "", "write the results to `FILE`, too")
	f.StringVar(&figures, "figures", "", "draw figures into `DIR`, too, as PNG and PDF")
	f.IntVar(&opts.Connections, "connections", opts.Connections, "`NUMBER` of connections of each kind")
	f.Int64Var(&opts.Bytes, "bytes", opts.Bytes, "`BYTES` of the download")
	f.IntVar(&opts.Rounds, "rounds", opts.Rounds, "`NUMBER` of round trips of ping-pong")
	f.IntSliceVar(&opts.Peers, "peers", opts.Peers, "`NUMBERS` of peers, rising")
	f.DurationVar(&opts.Idle, "idle", opts.Idle, "`TIME` that the processor's time is measured")
	return cmd
}

// kindNames returns the values of --kinds.
func kindNames() (all []string) {
	for _, k := range bench.Kinds {
		all = append(all, string(k))
	}
	return all
}

// benchNodeCommand runs a measured node, in a process of its own.
func benchNodeCommand() *cobra.Command {
	var cfg bench.NodeConfig
	cmd := &cobra.Command{
		Use: "bench-node", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return bench.Node(cmd.Context(), cmd.OutOrStdout(), cfg) },
	}
	f := cmd.Flags()
	f.StringVar((*string)(&cfg.Kind), "kind", "", "clearnet, chive, tor or tor-vanilla")
	f.StringVar(&cfg.Network, "network", "", "network file")
	f.StringVar(&cfg.Control, "control", "", "a Tor daemon's control port")
	f.StringVar(&cfg.SOCKS, "socks", "", "its SOCKS port")
	f.StringVar(&cfg.Dir, "dir", "", "directory")
	return cmd
}
