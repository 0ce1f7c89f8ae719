package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/deploy"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/logline"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/tomlfile"
	"github.com/chivenet/chive/internal/version"
)

// deployCommand puts seven roles on seven machines.
func deployCommand() *cobra.Command {
	var d deployment
	c := &cobra.Command{
		Use:   "deploy INVENTORY",
		Short: "Put the seven roles of a network on seven machines, and measure circuits",
		Long: `Put client, directory, guard, middle, exit, target and monitor on seven machines, as a file says, and have the
client build circuits through guard, middle and exit with each handshake. A circuit counts as built when the target has
sent back a byte through it. The results go to --out: the client's report (report.json), a line for each circuit
(samples.csv), and the metrics of all nodes over the run, as the monitor saw them (metrics.csv), and figures of both (SVG, PNG, PDF).
metrics.csv has 64 MiB at most: when it is full, it loses every second look, and later looks are twice as far apart.
"seven" is a file that comes with this program; docs/deploy.md shows it.

With --to netns the machines are Linux namespaces here, each behind the link that the file names. It needs root, or a
kernel that lets users make namespaces. If this machine was too slow to emulate the links, the command fails: then the
circuits count, and their times do not (links.json says how late packets were).

With --to ssh they are boards that the system's ssh reaches with a key, as the file says: user, host, port, identity,
directory, arch and known_hosts. Each gets the program for its processor from --programs, where "make boards" puts it, or
is told by --program. Keys are made on the boards. systemd keeps the programs where it runs, else a process does.

Whatever ends the run, it leaves nothing running, unless it is killed: then "chivelab clean" removes what it has left,
here and on the boards. From another machine, --remove does that.

With --to compose or --to k8s nothing runs: --out gets a file for docker compose, or manifests for Kubernetes, with the program
and a Dockerfile for its image, and README.md with the commands that come next. Keys are made in the containers.`,
		Example: "  chivelab deploy seven --out results\n  chivelab deploy own.toml --to netns\n  chivelab deploy boards.toml --to ssh\n  chivelab deploy boards.toml --to ssh --remove\n  chivelab deploy seven --to compose --out seven",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return d.run(c, args[0]) },
	}
	d.to = toNetns
	c.Flags().Var(options.Word{At: &d.to, Of: []string{toNetns, toSSH, toCompose, toK8s}}, "to", "`WHERE` the machines are: netns, ssh, compose or k8s")
	c.Flags().StringVar(&d.out, "out", "deployment", "write what is found into `DIR`")
	c.Flags().StringVar(&d.program, "program", "", "`PATH` of another build of chivelab for all nodes (default: this program, and what is in --programs)")
	c.Flags().StringVar(&d.programs, "programs", "", "`DIR` with linux-ARCH/chivelab for each kind of board (default: where this program is)")
	c.Flags().StringVar(&d.runner, "runner", "", "`COMMAND` that runs the program of the nodes, as qemu-aarch64-static does with one for arm64")
	c.Flags().BoolVar(&d.remove, "remove", false, "with --to ssh: end all runs on the boards, remove what they have there, and do nothing else")
	c.Flags().StringVar(&d.image, "image", "", "`NAME` of the image in what --to compose and --to k8s write (default: after the program's content)")
	c.AddCommand(deployNodeCommand(), deployFiguresCommand())
	return c
}

// deployment are the flags of deploy.
type deployment struct {
	to, out, program, programs, runner, image string
	remove                                    bool
}

func (d *deployment) run(c *cobra.Command, name string) error {
	inv, err := deploy.Open(name)
	if err != nil {
		return err
	}
	say := func(line string) { cli.Printf(c, "%s\n", line) }
	container := d.to == toCompose || d.to == toK8s
	if d.image != "" && !container {
		return fault.New(fault.Config, "--image needs --to compose or --to k8s")
	}
	if d.to != toSSH && (d.remove || d.programs != "") {
		return fault.New(fault.Config, "--remove and --programs need --to ssh")
	}
	if d.remove {
		return deploy.Remove(c.Context(), inv, say)
	}
	own, err := os.Executable()
	if err != nil {
		return fault.New(fault.Local, "which program is this: %w", err)
	}
	if container {
		return export(c, &deploy.Export{Inventory: inv, Program: cmp.Or(d.program, own), Image: d.image, Out: d.out}, d.to, d.runner)
	}
	runner := strings.Fields(d.runner)
	var r *deploy.Report
	if d.to == toSSH {
		p := &deploy.Programs{One: d.program, Dir: cmp.Or(d.programs, filepath.Dir(own)), Own: own, Runner: runner}
		r, err = deploy.OverSSH(c.Context(), inv, p, d.out, say)
	} else {
		if len(runner) > 0 {
			if _, err := exec.LookPath(runner[0]); err != nil {
				return fault.New(fault.Config, "--runner: %w", err)
			}
		}
		r, err = deploy.InNamespaces(c.Context(), inv, append(runner, cmp.Or(d.program, own)), d.out, say)
	}
	if r == nil {
		return err
	}
	return tellDeployment(c, r, d.out, err)
}

// tellDeployment prints a report, and draws its figures. late is not nil if its times do not count.
func tellDeployment(c *cobra.Command, r *deploy.Report, out string, late error) error {
	_, err := deploy.Draw(out)
	if err = errors.Join(err, cli.Printf(c, "%s", r.Table())); err != nil {
		return err
	}
	if !r.Complete() {
		return errors.Join(fault.New(fault.Network, "not all circuits were built"), late)
	}
	return late
}

// deployNodeCommand has the programs of roles that no other command has.
func deployNodeCommand() *cobra.Command {
	c := &cobra.Command{Use: "node", Short: "Play a role of a deployment", Hidden: true}
	c.AddCommand(deployKeysCommand(), deployTargetCommand(), deployMonitorCommand(), deployClientCommand(), deployHealthyCommand(), deployResultsCommand())
	c.AddCommand(boardCommands()...)
	return c
}

func deployKeysCommand() *cobra.Command {
	var dir, name, nick, address, network string
	c := &cobra.Command{Use: "keys", Short: "Make the directory's keys, and print the network file", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			addr, err := netip.ParseAddr(address)
			if err != nil {
				return fault.New(fault.Config, "--address: %w", err)
			}
			doc, err := deploy.MakeKeys(dir, name, nick, addr)
			if err != nil {
				return err
			}
			if network != "" {
				if err := atomicfile.Write(network, doc, atomicfile.Report); err != nil {
					return err
				}
			}
			return cli.Printf(c, "%s", doc)
		}}
	c.Flags().StringVar(&network, "network", "", "write the network file to `FILE` too")
	c.Flags().StringVar(&dir, "dir", "", "`DIR` of the keys")
	c.Flags().StringVar(&name, "name", "", "`NAME` of the network")
	c.Flags().StringVar(&nick, "nickname", "", "`NAME` of the authority")
	c.Flags().StringVar(&address, "address", "", "`IP` of the authority")
	return c
}

// serveOwnMetrics serves a registry until stop.
func serveOwnMetrics(c *cobra.Command, addr string, reg *metrics.Registry, fail func(error)) (stop func(), err error) {
	log := logline.New(slog.LevelError, logline.Auto, c.ErrOrStderr())
	_, stop, err = daemon.ServeMetrics(addr, nil, daemon.RegistryHandler(reg), log, fail)
	return stop, err
}

func deployTargetCommand() *cobra.Command {
	var listen, metricsAddr string
	c := &cobra.Command{Use: "target", Short: "Send back what comes", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithCancelCause(c.Context())
			defer cancel(nil)
			reg := new(metrics.Registry)
			stop, err := serveOwnMetrics(c, metricsAddr, reg, func(err error) { cancel(err) })
			if err != nil {
				return err
			}
			defer stop()
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return fault.New(fault.Local, "target: %w", err)
			}
			defer l.Close()
			if err := cli.Printf(c, "ready\n"); err != nil {
				return err
			}
			if err := deploy.ServeTarget(ctx, l, reg); err != nil {
				return err
			}
			return endedBy(ctx, c)
		}}
	c.Flags().StringVar(&listen, "listen", "", "`ADDR` to listen at")
	c.Flags().StringVar(&metricsAddr, "metrics", "", "`ADDR` of /metrics")
	return c
}

// endedBy is why ctx ended, if that is not the end of the command's own.
func endedBy(ctx context.Context, c *cobra.Command) error {
	if err := context.Cause(ctx); c.Context().Err() == nil && err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func deployMonitorCommand() *cobra.Command {
	var of []string
	var every time.Duration
	var out string
	c := &cobra.Command{Use: "monitor", Short: "Collect the metrics of nodes",
		Long: `Collect the metrics of nodes in metrics.csv. The file has 64 MiB at most: when it is full, it loses every second look, so
that it is of the whole run still, and nodes are asked at every second tick from then on.`, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if every <= 0 {
				return fault.New(fault.Config, "--every: %v is not above 0", every)
			}
			var nodes []deploy.Watched
			for _, s := range of {
				w, err := deploy.ParseWatched(s)
				if err != nil {
					return err
				}
				nodes = append(nodes, w)
			}
			tick := time.NewTicker(every)
			defer tick.Stop()
			if err := cli.Printf(c, "ready\n"); err != nil {
				return err
			}
			return deploy.Watch(c.Context(), nodes, tick.C, out)
		}}
	c.Flags().StringArrayVar(&of, "of", nil, "`NAME=IP:PORT` of a node's metrics; may be repeated")
	c.Flags().DurationVar(&every, "every", time.Second, "`TIME` between two questions")
	c.Flags().StringVar(&out, "out", "", "`DIR` of the results")
	return c
}

func deployClientCommand() *cobra.Command {
	var network, target, metricsAddr string
	var stay bool
	m := deploy.Measurement{Version: version.String(), Registry: new(metrics.Registry)}
	c := &cobra.Command{Use: "client", Short: "Build circuits, and measure", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			doc, err := atomicfile.ReadRegular(network, tomlfile.MaxSize)
			if err != nil {
				return fault.New(fault.Config, "--network: %w", err)
			}
			if m.Network, err = netfile.Parse(network, doc); err != nil {
				return err
			}
			if m.Target, err = netip.ParseAddrPort(target); err != nil {
				return fault.New(fault.Config, "--target: %w", err)
			}
			ctx, cancel := context.WithCancelCause(c.Context())
			defer cancel(nil)
			stop, err := serveOwnMetrics(c, metricsAddr, m.Registry, func(err error) { cancel(err) })
			if err != nil {
				return err
			}
			defer stop()
			r, err := m.Run(ctx)
			if err != nil {
				return err
			}
			if err := cli.Printf(c, "%s", r.Table()); err != nil || !stay {
				return err
			}
			<-ctx.Done()
			return endedBy(ctx, c)
		}}
	c.Flags().BoolVar(&stay, "stay", false, "after the measurement wait until the end is told")
	c.Flags().StringVar(&network, "network", "", "network `FILE`")
	c.Flags().StringVar(&target, "target", "", "`IP:PORT` that sends back what comes")
	c.Flags().StringVar(&metricsAddr, "metrics", "", "`ADDR` of /metrics")
	c.Flags().StringVar(&m.Dir, "out", "", "`DIR` of the results")
	c.Flags().StringSliceVar(&m.Path, "path", nil, "`NICKNAMES` of the relays, the nearest first")
	c.Flags().StringSliceVar(&m.Handshakes, "handshakes", nil, "`NAMES` of handshakes")
	c.Flags().IntVar(&m.Circuits, "circuits", 120, "`NUMBER` of circuits with each handshake")
	c.Flags().Uint64Var(&m.Seed, "seed", 1, "`NUMBER` of which the order of handshakes is made")
	return c
}

// cleanCommand removes what killed runs have left.
func cleanCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "clean",
		Short: "Remove what runs have left that were killed",
		Long:  "Remove what runs of \"chivelab deploy\" have left that were killed: files here, and with --to ssh also files and\nprocesses on boards. A run that goes on keeps its own.",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			removed, err := deploy.Clean(c.Context())
			for _, dir := range removed {
				if err := cli.Printf(c, "removed %s\n", dir); err != nil {
					return err
				}
			}
			return err
		},
	}
}
