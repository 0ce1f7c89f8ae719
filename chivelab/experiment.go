package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/experiment"
	"github.com/chivenet/chive/chivelab/internal/shadow"
	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/progress"
	"github.com/chivenet/chive/internal/version"
)

// experimentCommand has what is about experiments.
func experimentCommand() *cobra.Command {
	c := &cobra.Command{Use: "experiment", Short: "Measure circuits over emulated links, as a file says"}
	c.AddCommand(experimentRunCommand(), experimentShowCommand(), experimentFiguresCommand(), experimentCompareCommand(), experimentBesideCommand())
	return c
}

// experimentRunCommand runs experiments.
func experimentRunCommand() *cobra.Command {
	var out, tor string
	var repetitions, atOnce int
	var short bool
	c := &cobra.Command{
		Use:   "run FILE...",
		Short: "Run experiments",
		Long: `Run experiments: networks of Chive in this process, each node behind an emulated link, on which real circuits are
built and used. Each experiment gets a directory with its name in --out: the samples as they
come (samples.csv), and a report (report.json). The same command goes on where one was ended.

FILE is a file, or the name of a shipped experiment, or h, c or s, which are the twelve topologies with that set of
links, or hops, which are circuits of one to eight hops. "chivelab experiment show" lists the shipped ones; they are examples of all keys but these:

  program = "tor"       # authorities, relays and exits are C tor's, each in Linux namespaces; default "chive". A node may say another
  load = 2              # downloads of "size" bytes that go on beside all that is measured; default 0
  direction = "both"    # of a link: up leads away from a node, down to it; more keys: chivelab links check --help

A node without a place has a link that takes no time. Handshakes are written as "pq768" or, with a rekey after each
hop, as "pq768-B". The exit reaches its targets without a link.

Times and rates come with intervals of 95 %. A repetition in which this machine was too slow to emulate the links is
measured again, and is not counted. If too few are left, the report says that instead of values, and the command fails; the same
command tries those again.

Circuits wait more than they compute, so that a machine can run several experiments --at-once: two cores that have nothing else
to do, six. "h --at-once 6" takes within an hour there, and with --short within ten minutes.`,
		Example: "  chivelab experiment run h01-z1-up\n  chivelab experiment run h --at-once 6 --out twelve\n  chivelab experiment run h --short --at-once 6 --out sample\n  chivelab experiment run my.toml --repetitions 1000",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if atOnce < 1 || repetitions < 0 {
				return fault.New(fault.Config, "--at-once and --repetitions: below what is possible")
			}
			var files []*experiment.File
			for _, a := range args {
				more, err := experiment.Find(a)
				if err != nil {
					return err
				}
				files = append(files, more...)
			}
			for i, f := range files {
				if slices.ContainsFunc(files[:i], func(o *experiment.File) bool { return o.Short() == f.Short() }) {
					return fault.New(fault.Config, "two experiments are called %s", f.Short())
				}
				if short {
					f.Shorten()
				}
				if repetitions > 0 {
					f.Repetitions = repetitions
				}
			}
			p, err := experimentPrograms(files, tor)
			if err != nil {
				return err
			}
			return runExperiments(c, files, p, out, atOnce)
		},
	}
	c.Flags().StringVar(&out, "out", "experiments", "write what is found into `DIR`")
	c.Flags().StringVar(&tor, "tor", "tor", "`PATH` of C tor, for files with its nodes")
	c.Flags().IntVar(&repetitions, "repetitions", 0, "`NUMBER` of circuits with each handshake; 0: as the file says")
	c.Flags().IntVar(&atOnce, "at-once", 1, "`NUMBER` of experiments at the same time: most of their time is waiting")
	c.Flags().BoolVar(&short, "short", false, "a sample: at most 20 circuits with each handshake, 3 downloads and 5 directories")
	return c
}

// experimentPrograms finds what experiments start beside this process.
func experimentPrograms(files []*experiment.File, tor string) (p experiment.Programs, err error) {
	if !slices.ContainsFunc(files, (*experiment.File).HasTor) {
		return p, nil
	}
	if p.Tor, err = exec.LookPath(tor); err != nil {
		return p, fault.New(fault.Config, "--tor: %w", err)
	}
	if p.Tor, err = filepath.Abs(p.Tor); err != nil {
		return p, fault.Wrap(fault.Local, err)
	}
	self, err := child.Self()
	p.Self = []string{self}
	return p, err
}

// experimentBesideCommand is the first program of an exit's host.
func experimentBesideCommand() *cobra.Command {
	var echo, web string
	c := &cobra.Command{Use: "beside -- PROGRAM ARGUMENTS", Short: "Run a program beside the targets", Hidden: true, Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			cmd := exec.CommandContext(ctx, args[0], args[1:]...)
			cmd.Stdout, cmd.Stderr = c.OutOrStdout(), c.ErrOrStderr()
			if err := cmd.Start(); err != nil {
				return fault.Wrap(fault.Local, err)
			}
			ended := make(chan error, 1)
			go func() {
				ended <- cmd.Wait()
				cancel()
			}()
			err := shadow.ServeTarget(ctx, echo, web)
			cancel()
			if end := <-ended; c.Context().Err() == nil { // both serve until they are ended
				err = fault.New(fault.Local, "%s has ended: %w", args[0], cmp.Or(end, err, errors.New("nobody knows why")))
			}
			return err
		}}
	c.Flags().StringVar(&echo, "echo", "", "`ADDR` to send bytes back at")
	c.Flags().StringVar(&web, "web", "", "`ADDR` to have pages at")
	return c
}

// runExperiments runs some at the same time, and prints their reports in order.
func runExperiments(c *cobra.Command, files []*experiment.File, programs experiment.Programs, out string, atOnce int) error {
	bar := progress.OnTerminal(c.ErrOrStderr())
	defer bar.End()
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	var mu sync.Mutex // guards what follows, and the bar
	parts := make([]experiment.Progress, len(files))
	next := time.Now()
	results := make([]chan result, len(files))
	places := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	defer running.Wait()
	for i, f := range files {
		results[i] = make(chan result, 1)
		parts[i] = experiment.Progress{Of: len(f.Tasks())}
	}
	running.Go(func() {
		for i, f := range files {
			places <- struct{}{}
			running.Go(func() {
				defer func() { <-places }()
				r, err := experiment.Run(ctx, f, filepath.Join(out, f.Short()), version.String(), programs, func(p experiment.Progress) {
					mu.Lock()
					defer mu.Unlock()
					parts[i] = p
					if now := time.Now(); now.After(next) {
						next = now.Add(100 * time.Millisecond)
						drawProgress(bar, parts, atOnce)
					}
				})
				results[i] <- result{r, err}
			})
		}
	})
	refused, failed := 0, 0
	for i, f := range files {
		res := <-results[i]
		mu.Lock()
		bar.End()
		mu.Unlock()
		if res.err != nil {
			cancel()
			return fault.New(fault.KindOf(res.err), "%s: %w", f.Short(), res.err)
		}
		if err := cli.Printf(c, "%s", res.report.Table()); err != nil {
			cancel()
			return err
		}
		refused += res.report.Refused()
		failed += res.report.Failed()
	}
	switch {
	case refused > 0:
		return fault.New(fault.Resource, "%d groups of samples are refused: this machine was too slow; run the same again when it has less to do, and without their directories if they stay so", refused)
	case failed > 0:
		return fault.New(fault.Network, "%d repetitions failed; the reports in %s say why", failed, out)
	}
	return nil
}

// result is what a run gave.
type result struct {
	report *experiment.Report
	err    error
}

// drawProgress says how far all experiments are, and how long they will take.
func drawProgress(bar *progress.Bar, parts []experiment.Progress, atOnce int) {
	var all experiment.Progress
	running := 0
	for _, p := range parts {
		all.Done, all.Of, all.Late = all.Done+p.Done, all.Of+p.Of, all.Late+p.Late
		if p.Each > 0 {
			running++
			all.Each += p.Each
		}
	}
	if running == 0 {
		return
	}
	left := all.Each / time.Duration(running) * time.Duration(all.Of-all.Done) / time.Duration(min(atOnce, len(parts)))
	text := fmt.Sprintf("%d of %d samples, %v left", all.Done, all.Of, left.Round(time.Second))
	if all.Late > 0 {
		text += fmt.Sprintf(", %d late", all.Late)
	}
	bar.Draw(text, all.Done, all.Of)
}

// experimentShowCommand shows what is shipped.
func experimentShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show [NAME]",
		Short: "List the shipped experiments, or print one as a file",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				doc, err := experiment.ShippedText(args[0])
				if err != nil {
					return err
				}
				return cli.Printf(c, "%s", doc)
			}
			for _, name := range experiment.Shipped() {
				f, err := experiment.Find(name)
				if err != nil {
					return err
				}
				if err := cli.Printf(c, "%-12s %s\n", name, f[0].Title); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// load reads experiments again.
func load(dirs []string) (out []*experiment.Report, err error) {
	for _, d := range dirs {
		r, err := experiment.Load(d)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// experimentFiguresCommand draws.
func experimentFiguresCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "figures DIR...",
		Short: "Draw the figures of experiments from their samples",
		Long: `Draw the figures of experiments from their samples, each as SVG, PNG and PDF: of each experiment the time to
build circuits by stage and as boxes, round trips, first bytes, goodput, and the cost of handshakes. Of several
experiments also a table in colors, the way up beside the way down, the time by the number of hops, and the cost by rate,
delay and loss of the links. What has no samples, or was refused, is not drawn.`,
		Example: "  chivelab experiment figures experiments/*",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			reports, err := load(args)
			if err != nil {
				return err
			}
			names, err := experiment.Figures(reports, out)
			for _, n := range names {
				if err := cli.Printf(c, "%s\n", n); err != nil {
					return err
				}
			}
			return err
		},
	}
	c.Flags().StringVar(&out, "out", "figures", "write the figures into `DIR`")
	return c
}

// experimentCompareCommand compares.
func experimentCompareCommand() *cobra.Command {
	var jsonFile string
	c := &cobra.Command{
		Use:   "compare DIR DIR",
		Short: "Say in what two experiments differ, by statistics",
		Long: `Say in what two experiments differ. Each measure of each handshake is compared by ranks (Mann and Whitney), corrected
for the number of comparisons (Holm): if nothing differs at all, the chance is 5 % that anything is called different.
The ratio is that of the medians, with an interval of 95 %. A measure needs ten values on each side.`,
		Example: "  chivelab experiment compare before/h01-z1-up after/h01-z1-up",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			reports, err := load(args)
			if err != nil {
				return err
			}
			cmp := experiment.Compare(reports[0], reports[1])
			return tell(jsonFile, cmp, func() error { return cli.Printf(c, "%s", cmp.Table()) })
		},
	}
	c.Flags().StringVar(&jsonFile, "json", "", "write the comparison to `FILE`, as JSON")
	return c
}
