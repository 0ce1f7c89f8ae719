package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/appearance"
	"github.com/chivenet/chive/chivelab/internal/wan"
	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/version"
	"github.com/chivenet/chive/lab"
)

// benchWanWriteCommand writes the comparison for a simulator.
func benchWanWriteCommand() *cobra.Command {
	s := &wan.Simulation{}
	w := new(wanPlan)
	c := &cobra.Command{
		Use:   "write DIR",
		Short: "Write the networks of the comparison as directories that Shadow simulates",
		Long: `Write the networks of the comparison as directories that the simulator Shadow (version 3) simulates: one for each seed, side and
loss. Places, rates, paths, requests, and the nodes' programs and settings are those that "chivelab bench wan" has for the same
seed; the simulator has its own TCP, and queues of its own kind. DIR must not be there.

Shadow runs no static programs: "make shadow" builds bin/shadow/chivelab, which has all that Chive's nodes are.`,
		Example: `  bin/shadow/chivelab bench wan write simulated --seeds 1
  for d in simulated/seed*; do (cd $d && shadow shadow.yaml > shadow.log); done
  bin/shadow/chivelab bench wan read simulated
  bin/shadow/chivelab bench wan compare wan simulated`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if s.Plan, err = w.get(c.Flags()); err != nil {
				return err
			}
			if s.Lab == "" {
				if s.Lab, err = child.Self(); err != nil {
					return err
				}
			}
			if s.Chive == "" {
				s.Chive = s.Lab
			}
			if s.Tor, err = lab.FindTor(s.Tor); err != nil {
				return err
			}
			for _, at := range []*string{&s.Lab, &s.Chive, &s.Tor} {
				if *at, err = filepath.Abs(*at); err != nil {
					return fault.Wrap(fault.Local, err)
				}
			}
			tor, err := appearance.TorVersion(c.Context(), s.Tor)
			if err != nil {
				return err
			}
			s.Dir, s.Version, s.TorVersion = args[0], version.String(), tor.Tor
			if err := s.Write(c.Context()); err != nil {
				return err
			}
			return cli.Printf(c, "wrote %d runs\nnext: for d in %s/seed*; do (cd $d && shadow shadow.yaml > shadow.log); done; chivelab bench wan read %s\n", len(s.Plan.Tasks()), args[0], args[0])
		},
	}
	f := c.Flags()
	f.BoolVar(&w.short, "short", false, "write what chivelab bench wan --short measures")
	w.flags(f)
	f.StringVar(&s.Lab, "program", "", "`PATH` of a chivelab that is dynamically linked (default: this program)")
	f.StringVar(&s.Chive, "chive", "", "`PATH` of a chive that is dynamically linked, for Chive's nodes (default: what --program says)")
	f.StringVar(&s.Tor, "tor", "", "`PATH` of C tor (default: tor in PATH)")
	f.SortFlags = false
	return c
}

// benchWanReadCommand reads what a simulator found.
func benchWanReadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "read DIR",
		Short: "Make runs, samples and the report of what Shadow has simulated",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			report, err := wan.ReadSimulation(args[0])
			if err != nil {
				return err
			}
			if err := cli.Printf(c, "%s", report.Table()); err != nil {
				return err
			}
			return report.Err()
		},
	}
}

// benchWanCompareCommand compares two directories of samples.
func benchWanCompareCommand() *cobra.Command {
	var jsonFile string
	c := &cobra.Command{
		Use:   "compare DIR DIR",
		Short: "Say how far two directories' values are apart, such as those of namespaces and of Shadow",
		Long: `Say how far the values of two directories are apart: of those runs (seed, side and loss) that count in both. Each value stands
with its relative change, and each ratio to C tor alone with its own. What changes by more than 15 % has a star.
Neither directory is changed.`,
		Example: "  chivelab bench wan compare wan simulated",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			x, err := wan.Compare(args[0], args[1])
			if err != nil {
				return err
			}
			return tell(jsonFile, x, func() error { return cli.Printf(c, "%s", x.Table()) })
		},
	}
	c.Flags().StringVar(&jsonFile, "json", "", "write the comparison to `FILE`, as JSON")
	return c
}
