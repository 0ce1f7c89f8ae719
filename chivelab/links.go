package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/linkcheck"
	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/progress"
	"github.com/chivenet/chive/internal/tomlfile"
)

// linksCommand has what is about emulated links.
func linksCommand() *cobra.Command {
	c := &cobra.Command{Use: "links", Short: "Emulated links: rate, delay, loss and queues"}
	c.AddCommand(linksCheckCommand(), linksProbeCommand())
	return c
}

// example is the link of "links check" without a file.
const example = `[[link]]
name = "example"
rate = "10M"
delay = "50ms"
`

// linksCheckCommand measures links of a file.
func linksCheckCommand() *cobra.Command {
	var attach, jsonFile string
	var tcp int64
	var seconds, within float64
	c := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Measure emulated links, and compare them with their rules",
		Long: `Measure each direction of the links in a file from outside, with packets and the clock, and print what the
file says beside what was found. Without a file, a link of 10 Mbit/s and 50 ms is measured. Steps of a link
("at") are not measured: only how it begins.

A file has a table [[link]] for each link:

  seed = 1                  # all chance comes from it; default 0

  [[link]]
  name = "dsl"              # the only key that must be there
  rate = "16M"              # bits a second: 500k, 10M, 1 Gbit/s; default: no bound
  delay = "20ms"            # one way
  jitter = "normal"         # none, uniform, normal, or table
  spread = "3ms"            # half the width of uniform, standard deviation of normal
  table = ["-2ms", "9ms"]   # of jitter "table": one of these is added to the delay
  loss = 0.01               # the chance that a packet is lost, each for itself
  burst-to-bad = 0.001      # losses in a row (Gilbert-Elliott): the chance before each packet to get bad,
  burst-to-good = 0.1       # to get good again,
  burst-loss-good = 0.0     # and to be lost in each state
  burst-loss-bad = 0.5
  reorder = 0.01            # the chance that later packets overtake one,
  reorder-by = "5ms"        # which is held back for this time
  queue = 100000            # bytes that wait before the link; default 1048576
  discipline = "codel"      # or "drop-tail", the default
  target = "5ms"            # of codel (RFC 8289)
  interval = "100ms"
  mtu = 1500

A later table of the same name changes what it says and nothing else: with direction = "up" or "down" only
that way, and with at = "10s" only after that time, so that a row of tables is a trace.

Packets run in this process, or with --attach tun between two programs in Linux namespaces, as C tor or
curl would be; that needs root, or a kernel that lets users make namespaces.

A run in which this machine was too slow to emulate the link is refused: it says nothing about the link.`,
		Example: "  chivelab links check\n  chivelab links check satellite.toml --attach tun --json report.json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name, doc := "example", []byte(example)
			if len(args) > 0 {
				var err error
				name = args[0]
				if doc, err = atomicfile.ReadRegular(name, tomlfile.MaxSize); err != nil {
					return fault.New(fault.Config, "%w", err)
				}
			}
			f, err := links.ParseFile(name, doc)
			if err != nil {
				return err
			}
			if !(seconds >= .1 && seconds <= 600) {
				return fault.New(fault.Config, "--seconds: %v is not from 0.1 to 600", seconds)
			}
			if !(within > 0) {
				return fault.New(fault.Config, "--within: %v is not above 0", within)
			}
			cfg := linkcheck.Config{Seed: f.Seed, Seconds: seconds}
			if attach == "tun" {
				exe, err := os.Executable()
				if err != nil {
					return fault.New(fault.Local, "which program is this: %w", err)
				}
				cfg.Probe = []string{exe, "links", "probe"}
			}
			return checkLinks(c, f, cfg, jsonFile, within, tcp)
		},
	}
	attach = "process"
	c.Flags().Var(options.Word{At: &attach, Of: []string{"process", "tun"}}, "attach", "`WAY` to attach hosts: process, or tun")
	c.Flags().Float64Var(&seconds, "seconds", 2, "`SECONDS` that each of at most three measurements takes, about")
	c.Flags().Float64Var(&within, "within", 5, "`PERCENT` by which what is measured may be off")
	c.Flags().Int64Var(&tcp, "tcp", 0, "also send `BYTES` by TCP, and say what TCP made of the link (default: none)")
	c.Flags().StringVar(&jsonFile, "json", "", "write the reports to `FILE`, as JSON")
	return c
}

// checkLinks measures all directions.
func checkLinks(c *cobra.Command, f *links.File, cfg linkcheck.Config, jsonFile string, within float64, tcp int64) error {
	bar := progress.OnTerminal(c.ErrOrStderr())
	defer bar.End()
	var reports []*linkcheck.Report
	text := linkcheck.Head()
	refused, off := 0, 0
	for _, l := range f.Links {
		for _, d := range []struct {
			way string
			of  links.Direction
		}{{"up", l.Up}, {"down", l.Down}} {
			next := time.Now()
			cfg.Name, cfg.Rules = l.Name+" "+d.way, d.of.Rules
			cfg.Progress = func(done, of int) {
				if now := time.Now(); now.After(next) {
					next = now.Add(100 * time.Millisecond)
					bar.Draw(fmt.Sprintf("%s: %d of %d packets", cfg.Name, done, of), done, of)
				}
			}
			r, err := linkcheck.Run(c.Context(), cfg)
			if err != nil {
				return err
			}
			if tcp > 0 && r.Refused == "" {
				bar.Draw(cfg.Name+": TCP", 0, 1)
				if r.TCP, err = linkcheck.RunTCP(c.Context(), cfg, tcp); err != nil {
					return err
				}
				r.Refused = r.TCP.Refused
			}
			reports = append(reports, r)
			switch {
			case r.Refused != "":
				r.Values = nil
				refused++
				text += fmt.Sprintf("%-20s %-10s refused: %s\n", r.Link, r.Attachment, r.Refused)
			case 100*r.Worst() > within:
				off++
				fallthrough
			default:
				text += r.Table()
				if r.TCP != nil {
					text += fmt.Sprintf("%-20s %-10s %-6s %10s %10.3f %s\n", r.Link, r.Attachment, "tcp", "", r.TCP.Mbits(), "Mbit/s")
				}
				text += fmt.Sprintf("%-20s %-10s %v\n", "", "", r.Late)
			}
		}
	}
	bar.End()
	if err := tell(jsonFile, reports, func() error { return cli.Printf(c, "%s", text) }); err != nil {
		return err
	}
	switch {
	case refused > 0:
		return fault.New(fault.Resource, "%d of %d measurements are refused: this machine was too slow; try again when it has less to do", refused, len(reports))
	case off > 0:
		return fault.New(fault.Local, "%d of %d measurements are off by more than %v %%", off, len(reports), within)
	}
	return nil
}

// linksProbeCommand is the program beside a TUN device.
func linksProbeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "probe", Short: "Send or receive a measurement's packets", Hidden: true, Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error { return linkcheck.Probe(args, c.OutOrStdout()) },
	}
}
