package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/devp2p/internal/bench"
	"github.com/chivenet/chive/program"
	"github.com/chivenet/chive/program/commandline"
)

// benchCommand measures connections, speed and peers on networks of its own.
func benchCommand() *cobra.Command {
	var kinds []string
	var short bool
	var dir string
	sizes := bench.Defaults()
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure connections over onions, and what peers cost",
		Long: "bench starts networks of relays on this machine, and measures plain connections, Chive's onions, and\n" +
			"those of a stock tor, which must be installed. It takes the better part of an hour; with --short, two\n" +
			"minutes, and fewer kinds.\n\n" +
			"--report writes report.txt, report.json, report.csv, a page of Markdown, and figures. What is finished\n" +
			"stays in the directory, so a run that was interrupted goes on when the same command is given again.\n\n" +
			"As root on Linux it runs in a network namespace. Elsewhere the kernel delays acknowledgements, from\n" +
			"which a stock tor suffers most, and the report says so.",
		Example: "  chive-eth bench --short\n  chive-eth bench --report report",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if short {
				quick := bench.Short()
				for name, set := range map[string]func(){
					"kinds": func() { sizes.Kinds = quick.Kinds }, "connections": func() { sizes.Connections = quick.Connections },
					"bytes": func() { sizes.Bytes = quick.Bytes }, "rounds": func() { sizes.Rounds = quick.Rounds },
					"peers": func() { sizes.Peers, sizes.Spread = quick.Peers, quick.Spread }, "while": func() { sizes.While = quick.While },
				} {
					if !cmd.Flags().Changed(name) {
						set()
					}
				}
				sizes.Firsts, sizes.Downloads, sizes.Loads, sizes.LinkBytes = quick.Firsts, quick.Downloads, quick.Loads, quick.LinkBytes
			}
			if cmd.Flags().Changed("kinds") {
				sizes.Kinds = nil
				for _, k := range kinds {
					sizes.Kinds = append(sizes.Kinds, bench.Kind(k))
				}
			}
			if cmd.Flags().Changed("peers") {
				sizes.Spread = sizes.Peers
			}
			if err := sizes.Check(); err != nil {
				return err
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			if done, err := bench.InNamespace(cmd.Context(), self, cmd.OutOrStdout(), cmd.ErrOrStderr()); done {
				return err
			}
			return runBench(cmd, bench.Config{Sizes: sizes, Dir: dir, Program: self, Args: []string{"bench-node"}})
		},
	}
	f := cmd.Flags()
	kinds = kindNames()
	f.Var(commandline.Words(&kinds, kindNames()), "kinds", "`KINDS` to measure: tor is over the same relays as chive, tor-vanilla and tor-kist over stock relays")
	f.BoolVar(&short, "short", false, "a quick look: less of everything")
	f.StringVar(&dir, "report", "", "write the report to `DIR`, and keep there what is finished (default: only print it)")
	f.IntVar(&sizes.Connections, "connections", sizes.Connections, "`NUMBER` of connections of each kind")
	f.Int64Var(&sizes.Bytes, "bytes", sizes.Bytes, "`BYTES` of a download")
	f.IntVar(&sizes.Rounds, "rounds", sizes.Rounds, "`NUMBER` of round trips of ping-pong")
	f.IntSliceVar(&sizes.Peers, "peers", sizes.Peers, "`NUMBERS` of peers, rising")
	f.DurationVar(&sizes.While, "while", sizes.While, "`TIME` that is measured at each number of peers and each load")
	return cmd
}

// runBench measures, and writes what came of it.
func runBench(cmd *cobra.Command, cfg bench.Config) (err error) {
	began := time.Now()
	cfg.Progress = func(s string) { fmt.Fprintf(cmd.ErrOrStderr(), "%6.1fs  %s\n", time.Since(began).Seconds(), s) }
	keep := cfg.Dir != ""
	if !keep {
		if cfg.Dir, err = os.MkdirTemp("", "chive-eth-report-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(cfg.Dir)) }()
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return err
	}
	lock, err := program.LockDir(filepath.Join(cfg.Dir, "parts"))
	if err != nil {
		return err
	}
	defer lock.Close()
	report, err := bench.Run(cmd.Context(), cfg)
	if err != nil {
		if keep && errors.Is(err, context.Canceled) {
			err = fmt.Errorf("%w: what is finished is kept; give the same command to go on", err)
		}
		return err
	}
	if keep {
		if err := report.Write(cfg.Dir); err != nil {
			return err
		}
	}
	return report.WriteText(cmd.OutOrStdout())
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
	f.StringVar((*string)(&cfg.Kind), "kind", "", "clearnet, chive, tor, tor-vanilla or tor-kist")
	f.StringVar(&cfg.Network, "network", "", "network file")
	f.StringVar(&cfg.Control, "control", "", "a Tor daemon's control port")
	f.StringVar(&cfg.SOCKS, "socks", "", "its SOCKS port")
	f.StringVar(&cfg.Proxy, "proxy", "", "a proxy for connections to relays")
	f.BoolVar(&cfg.Both, "both", false, "an address beside the onion")
	f.StringVar(&cfg.Dir, "dir", "", "directory")
	return cmd
}
