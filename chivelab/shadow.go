package main

import (
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/chivelab/internal/experiment"
	"github.com/chivenet/chive/chivelab/internal/shadow"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/tomlfile"
	"github.com/chivenet/chive/internal/version"
)

// shadowCommand takes experiments to a simulator and back.
func shadowCommand() *cobra.Command {
	c := &cobra.Command{Use: "shadow", Short: "Measure in the simulator Shadow what an experiment's file says"}
	c.AddCommand(shadowExportCommand(), shadowImportCommand(), shadowSampleCommand(), shadowNodeCommand())
	return c
}

// shadowExportCommand writes what the simulator needs.
func shadowExportCommand() *cobra.Command {
	x := &shadow.Export{Relays: shadow.Chive, Clients: shadow.Chive}
	c := &cobra.Command{
		Use:   "export FILE",
		Short: "Write an experiment as a directory that Shadow simulates",
		Long: `Write an experiment as a directory for the simulator Shadow (https://shadow.github.io, version 3): shadow.yaml with a host
for each node and a graph from the file's links, and a template with keys, configurations and the experiment's file. In
the simulation time is simulated: a slow machine takes longer, and finds the same. A processor's time is not simulated.

FILE is a file as "chivelab experiment run" reads it, or the name of a shipped experiment; "chivelab shadow sample" makes
one from a consensus. Shadow knows rate, delay and loss of a link: a file with other rules is refused. Hosts whose links take no
time are 100 microseconds apart, and a link without a rate has 10 Gbit/s. Its TCP stops for seconds over links that lose several percent. There are three authorities and three
relays at least.

The experiment's client measures as it does elsewhere, and begins after 120 seconds. With --clients others load the network beside it: each is
a program with paths of its own, behind a link like the client's, that asks a server for pages of 50 KiB, 1 MiB and 5 MiB (12:2:1) with pauses.

Shadow runs no static programs: "make shadow" builds bin/shadow/chivelab, which has all that Chive's nodes are.`,
		Example: `  make shadow
  bin/shadow/chivelab shadow export leo --out orbit
  (cd orbit && shadow shadow.yaml > shadow.log)
  bin/shadow/chivelab shadow import orbit
  bin/shadow/chivelab shadow export own.toml --relays tor --clients 20 --client-program tor --out own-tor`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			files, err := experiment.Find(args[0])
			if err != nil {
				return err
			}
			if len(files) != 1 {
				return fault.New(fault.Config, "%s is %d experiments: name one", args[0], len(files))
			}
			x.File = files[0]
			if x.File.Mixed() {
				return x.File.At("program", fault.New(fault.Config, "nodes of two programs are not exported: give all of them one"))
			}
			if x.File.HasTor() {
				x.Relays = shadow.Tor
			}
			if x.Out == "" {
				x.Out = x.File.Short() + ".shadow"
			}
			if err := shadowPrograms(x); err != nil {
				return err
			}
			e, err := x.Do(c.Context())
			if err != nil {
				return err
			}
			return cli.Printf(c, "wrote %d hosts, %v of simulated time\nnext: %s\n", e.Hosts, e.Stop, x.Next())
		},
	}
	f := c.Flags()
	f.StringVar(&x.Out, "out", "", "write into `DIR`, which must be new or empty (default: the experiment's name with .shadow)")
	f.Var(options.Word{At: &x.Relays, Of: []string{shadow.Chive, shadow.Tor}}, "relays", "`PROGRAM` of relays and authorities: chive or tor")
	f.IntVar(&x.Users, "clients", 0, "`NUMBER` of clients that load the network")
	f.Var(options.Word{At: &x.Clients, Of: []string{shadow.Chive, shadow.Tor}}, "client-program", "`PROGRAM` of these: chive or tor")
	f.DurationVar(&x.Pause, "pause", 30*time.Second, "`TIME` that a client waits after a page, on average")
	f.DurationVar(&x.Stop, "stop", 0, "`TIME` at which the simulation ends (0, the default: about twice what measuring should take)")
	f.StringVar(&x.Lab, "program", "", "`PATH` of a chivelab that is dynamically linked (default: this program)")
	f.StringVar(&x.Chive, "chive", "", "`PATH` of a chive that is dynamically linked, for Chive's nodes (default: what --program says)")
	f.StringVar(&x.Tor, "tor", "tor", "`PATH` of C tor")
	f.SortFlags = false
	return c
}

// shadowPrograms finds the programs that the simulator is to run.
func shadowPrograms(x *shadow.Export) (err error) {
	if x.Lab == "" {
		if x.Lab, err = child.Self(); err != nil {
			return err
		}
	}
	if x.Relays == shadow.Tor || x.Clients == shadow.Tor && x.Users > 0 {
		if x.Tor, err = exec.LookPath(x.Tor); err != nil {
			return fault.New(fault.Config, "--tor: %w", err)
		}
	}
	for _, at := range []*string{&x.Lab, &x.Chive, &x.Tor} {
		if *at == "" {
			continue
		}
		if *at, err = filepath.Abs(*at); err != nil {
			return fault.Wrap(fault.Local, err)
		}
	}
	return nil
}

// shadowImportCommand reads what a simulation found.
func shadowImportCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "import DIR",
		Short: "Make a report and samples of what a simulation found",
		Long: `Make a report and samples of what a simulation found, as "chivelab experiment run" makes them: the other commands for
experiments take the directory, too. DIR is what "chivelab shadow export" wrote, in which shadow has run, or the directory of data that
shadow made. Pages that clients asked for have the kind fetch, and the program and the size as their name. The times of
sessions are simulated: they begin in the year 2000.`,
		Example: "  chivelab shadow import orbit\n  chivelab experiment compare experiments/leo orbit/results",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" {
				out = filepath.Join(args[0], "results")
			}
			r, err := shadow.Import(args[0], out)
			if r == nil {
				return err
			}
			if bad := cli.Printf(c, "%s", r.Table()); bad != nil {
				return bad
			}
			if err == nil && r.Failed() > 0 {
				err = fault.New(fault.Network, "%d repetitions failed; the report in %s says why", r.Failed(), out)
			}
			return err
		},
	}
	c.Flags().StringVar(&out, "out", "", "write into `DIR`, which has no samples yet (default: results in the directory that is read)")
	return c
}

// shadowSampleCommand makes experiments from a consensus.
func shadowSampleCommand() *cobra.Command {
	s := &shadow.Sample{}
	share := 1.0
	c := &cobra.Command{
		Use:   "sample CONSENSUS",
		Short: "Make an experiment's file with relays sampled from a consensus",
		Long: `Make an experiment's file with relays sampled from a consensus, of either flavor, as C tor keeps it or an archive has it.
Guards, exits, relays that are both and those that are neither are each ordered by weight and cut into as many pieces as the share
asks for; the middle one of each piece is taken. A relay's link carries its weight, and 1 Mbit/s at least. A consensus does
not say where relays are: each is in one of eight regions, 10 to 80 ms apart, which --seed draws. The path that is measured has the middle
guard, relay and exit.`,
		Example: `  chivelab shadow sample ~/.tor/cached-microdesc-consensus --share 1 > one.toml
  bin/shadow/chivelab shadow export one.toml --clients 80`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s.Consensus, s.Share = args[0], share/100
			text, err := s.Text()
			if err != nil {
				return err
			}
			if _, err := experiment.Parse("the sample", text); err != nil {
				return err
			}
			return cli.Printf(c, "%s", text)
		},
	}
	c.Flags().Float64Var(&share, "share", 1, "`PERCENT` of the relays, above 0 and up to 100")
	c.Flags().Uint64Var(&s.Seed, "seed", 1, "`SEED` of all that is drawn, here and in the simulation")
	return c
}

// shadowNodeCommand has what runs in the simulation beside the nodes.
func shadowNodeCommand() *cobra.Command {
	c := &cobra.Command{Use: "node", Short: "Be a part of a simulation", Hidden: true}

	m := &shadow.Measurement{Version: version.String()}
	var file, network, path string
	var echo, web netip.AddrPort
	measure := &cobra.Command{Use: "measure", Short: "Measure", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			files, err := experiment.Find(file)
			if err != nil {
				return err
			}
			if len(files) != 1 || path == "" {
				return fault.New(fault.Config, "--experiment is one file, and --path has relays")
			}
			doc, err := atomicfile.ReadRegular(network, tomlfile.MaxSize)
			if err != nil {
				return fault.New(fault.Config, "--network: %w", err)
			}
			if m.Network, err = netfile.Parse(network, doc); err != nil {
				return err
			}
			m.File, m.Path, m.Echo, m.Web = files[0], strings.Split(path, ","), echo, web
			return m.Run(c.Context())
		}}
	measure.Flags().StringVar(&file, "experiment", "", "`FILE` of the experiment")
	measure.Flags().StringVar(&network, "network", "", "`FILE` of the network")
	measure.Flags().StringVar(&path, "path", "", "`NAMES` of relays")
	measure.Flags().TextVar(&echo, "echo", netip.AddrPort{}, "`ADDR` that sends bytes back")
	measure.Flags().TextVar(&web, "web", netip.AddrPort{}, "`ADDR` that has pages")
	measure.Flags().StringVar(&m.Out, "out", "results", "write into `DIR`")

	f := &shadow.Fetches{Proxy: "127.0.0.1:9050"}
	fetch := &cobra.Command{Use: "fetch", Short: "Ask for pages", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.Run(c.Context()) }}
	fetch.Flags().StringVar(&f.Target, "target", "", "`ADDR` of the server")
	fetch.Flags().StringVar(&f.Name, "name", "", "`NAME` of the client's program")
	fetch.Flags().DurationVar(&f.Pause, "pause", time.Minute, "`TIME` after a page")
	fetch.Flags().Uint64Var(&f.Seed, "seed", 0, "`SEED` of what is drawn")
	fetch.Flags().StringVar(&f.Out, "out", "fetches.csv", "`FILE` of samples")

	var echoAt, webAt string
	target := &cobra.Command{Use: "target", Short: "Be what is asked", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return shadow.ServeTarget(c.Context(), echoAt, webAt) }}
	target.Flags().StringVar(&echoAt, "echo", "", "`ADDR` to send bytes back at")
	target.Flags().StringVar(&webAt, "web", "", "`ADDR` to have pages at")
	c.AddCommand(measure, fetch, target)
	return c
}
