package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chivenet/chive/internal/cli"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/logline"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/lab"
)

// labTime bounds how long a network may take to start.
const labTime = 2 * time.Minute

// labFlags binds the options of a network to flags.
func labFlags(fs *pflag.FlagSet, o *lab.Options, s *daemon.Common) {
	fs.IntVar(&o.Authorities, "authorities", 3, "`NUMBER` of directory authorities")
	fs.IntVar(&o.Relays, "relays", 5, "`NUMBER` of relays that are not exits")
	fs.IntVar(&o.Exits, "exits", 2, "`NUMBER` of exits")
	fs.IntVar(&o.Bridges, "bridges", 0, "`NUMBER` of bridges")
	fs.DurationVar(&o.VotingInterval, "voting-interval", 0, "`TIME` between two consensuses, 10s at least; some minutes do not disturb measurements (default: 15s, or 10m above 200 nodes)")
	fs.StringArrayVar(&o.BridgeTransports, "bridge-transport", nil, "`LINE` of a transport that every bridge offers, too: 'obfs4 exec /usr/bin/obfs4proxy'; may be repeated")
	fs.BoolVar(&o.Processes, "processes", false, "run every node as a process")
	fs.BoolVar(&o.CtorAuthorities, "ctor-authorities", false, "use C tor's authorities")
	fs.IntVar(&o.CtorRelays, "ctor-relays", 0, "`NUMBER` of relays of C tor")
	fs.IntVar(&o.CtorClients, "ctor-clients", 0, "`NUMBER` of clients of C tor")
	fs.StringVar(&o.Tor, "tor", "", "`PATH` of C tor (default: tor in PATH)")
	fs.StringVar(&o.Dir, "dir", "", "`DIR` for the nodes' files (default: a temporary one, removed at the end)")
	fs.StringVar(&o.SOCKS, "socks", "", "`ADDR` of the client's SOCKS port (default: a free one of loopback)")
	s.LogLevel, s.LogFormat = levelOff, logline.Auto
	fs.Var(options.Level{At: &s.LogLevel}, "log-level", "lowest `LEVEL` of the nodes' log: debug, info, warn or error (default: no log)")
	fs.Var(options.Word{At: &s.LogFormat, Of: logline.Formats}, "log-format", "`FORMAT` of the log: auto (lines for people on a terminal, else text), text or json")
	fs.SortFlags = false
}

// levelOff is above every level that is logged.
const levelOff = 1000

// startLab starts the network that the flags ask for.
func startLab(c *cobra.Command, o *lab.Options, s *daemon.Common) (nw *lab.Network, err error) {
	o.Log = logline.New(s.LogLevel, s.LogFormat, c.ErrOrStderr())
	// Of a flag, zero means none.
	for _, n := range []*int{&o.Authorities, &o.Relays, &o.Exits} {
		if *n < 0 {
			return nil, fault.New(fault.Config, "lab: a negative number of nodes")
		}
		if *n == 0 {
			*n = -1
		}
	}
	if c.Flags().Changed("voting-interval") && o.VotingInterval == 0 {
		return nil, fault.New(fault.Config, "--voting-interval: it must be above 0")
	}
	if o.Processes {
		if o.Program, err = child.Self(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(c.Context(), labTime)
	defer cancel()
	return lab.Start(ctx, *o)
}

// labUpCommand runs a network until it is told to stop.
func labUpCommand() *cobra.Command {
	var o lab.Options
	var s daemon.Common
	var asJSON, commands, emulate bool
	var at string
	c := &cobra.Command{
		Use:   "up",
		Short: "Start a network, and keep it until Ctrl-C",
		Long: `Start a network on loopback: authorities, relays, exits, a client with a SOCKS port, and a web server to
fetch from. It is kept until Ctrl-C, and leaves nothing behind.

Standard output says where things are; with --json it is one line with network_file, socks, target_url, dir
and nodes. A bridge is unlisted: its lines are for "chive proxy --bridge" and C tor's "Bridge".

With --commands each line of standard input adds a node while the network runs: "add relay", "add exit",
"add bridge", "add client" or "add onion". The answer has the node's lines and then "listed NAME", when clients can
use it, or "error TEXT". With --json the answer is one line: the node, or {"error":TEXT}.

With --page a browser of this machine shows the network as it works. The line "page URL" has the page's token, and
with --json the field page has that URL. With --emulate-links each node has a link of its own, which the page can
make worse: delay, loss and rate.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			hosts, closeHosts, err := emulateLinks(emulate, at, &o)
			if err != nil {
				return err
			}
			defer closeHosts()
			nw, err := startLab(c, &o, &s)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, nw.Close()) }()
			url, ended, stop, err := showPage(at, nw, hosts, o.Log)
			if err != nil {
				return err
			}
			defer stop() // before the nodes end
			if asJSON {
				b, err := upJSON(nw, url)
				if err != nil {
					return err
				}
				cli.Printf(c, "%s\n", b)
			} else {
				cli.Printf(c, "network %s\nsocks %s\ntarget %s\ndir %s\n", nw.NetworkFile, nw.SOCKS, nw.URL(lab.TargetBytes), nw.Dir)
				for _, n := range nw.Nodes() {
					printNode(c, n)
				}
				if url != "" {
					cli.Printf(c, "page %s\n", url)
				}
				cli.Printf(c, "ready\n")
			}
			if commands {
				return obey(c, nw, asJSON, ended)
			}
			select {
			case <-c.Context().Done():
				return nil
			case err := <-ended:
				return err
			}
		},
	}
	labFlags(c.Flags(), &o, &s)
	c.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON")
	c.Flags().StringVar(&at, "page", "", "`ADDR` of a page for a browser: an address of loopback, such as 127.0.0.1:0, or unix:PATH (default: none)")
	c.Flags().BoolVar(&emulate, "emulate-links", false, "give each node an emulated link, which the page can make worse; not with processes or C tor")
	c.Flags().BoolVar(&commands, "commands", false, "add nodes as the lines of standard input say")
	return c
}

// labRunCommand runs a command together with a network.
func labRunCommand() *cobra.Command {
	var o lab.Options
	var s daemon.Common
	c := &cobra.Command{
		Use:   "run [flags] [-- CMD [ARG...]]",
		Short: "Start a network, run a command in it, and stop it",
		Long: `Start a network on loopback, run a command with ALL_PROXY (the client's SOCKS port), CHIVE_NETWORK (the
network file) and CHIVE_TARGET (a URL to fetch) in its environment, stop the network, and exit as the command did.

Without a command, fetch the built-in target through three hops, and print the path, how long each stage took,
and the checksum.`,
		Example: "  chivelab run\n  chivelab run -- sh -c 'curl -s $CHIVE_TARGET | sha256sum'",
		RunE: func(c *cobra.Command, args []string) (err error) {
			began := time.Now()
			nw, err := startLab(c, &o, &s)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, nw.Close()) }()
			if len(args) > 0 {
				return runIn(c, nw, args)
			}
			f, err := nw.Fetch(c.Context(), lab.TargetBytes)
			if err != nil {
				return err
			}
			printFetched(c, nw, f, time.Since(began))
			return nil
		},
	}
	labFlags(c.Flags(), &o, &s)
	return c
}

// runIn runs a command with the network in its environment.
func runIn(c *cobra.Command, nw *lab.Network, args []string) error {
	cmd := exec.CommandContext(c.Context(), args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = child.Grace
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, c.OutOrStdout(), c.ErrOrStderr()
	cmd.Env = append(os.Environ(), "ALL_PROXY=socks5h://"+nw.SOCKS, "CHIVE_NETWORK="+nw.NetworkFile, "CHIVE_TARGET="+nw.URL(lab.TargetBytes))
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return fault.New(fault.Config, "run %s: %w", args[0], err)
	}
	if code := childCode(cmd.ProcessState); code != 0 {
		return cli.ExitError{Code: code}
	}
	return nil // also if it was told to end, of which err tells then
}

// printFetched says how the target was fetched.
func printFetched(c *cobra.Command, nw *lab.Network, f *lab.Fetched, all time.Duration) {
	counts := map[string]int{}
	var kinds []string
	for _, n := range nw.Nodes() {
		kind := n.Program + " " + string(n.Role)
		if counts[kind]++; counts[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	for i, k := range kinds {
		kinds[i] = fmt.Sprintf("%d %s", counts[k], k)
	}
	cli.Printf(c, "network   %s\n", strings.Join(kinds, ", "))
	var path []string
	for _, n := range f.Path {
		path = append(path, n.Name)
	}
	cli.Printf(c, "path      client -> %s -> target\n", strings.Join(path, " -> "))
	for _, s := range nw.Stages {
		cli.Printf(c, "%9v start: %s\n", s.Took.Round(time.Millisecond/10), s.Name)
	}
	for _, s := range f.Hops {
		cli.Printf(c, "%9v circuit: %s\n", s.Took.Round(time.Millisecond/100), s.Name)
	}
	for _, s := range f.Stages {
		cli.Printf(c, "%9v fetch: %s\n", s.Took.Round(time.Millisecond/100), s.Name)
	}
	cli.Printf(c, "%9v in all\n", all.Round(time.Millisecond))
	cli.Printf(c, "sha256    %s (%d bytes, as sent)\n", f.SHA256, f.Bytes)
}
