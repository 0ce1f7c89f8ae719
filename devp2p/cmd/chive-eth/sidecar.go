package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/find"
	"github.com/chivenet/chive/devp2p/internal/sidecar"
	"github.com/chivenet/chive/program"
)

const sidecarLong = `Give a geth that already runs, unchanged, an onion, and connect it to nodes that have one.

The sidecar needs the node's IPC socket, or the port of its JSON-RPC with the methods
admin_* (--rpc-url). Connections to its onion go to the node's peer-to-peer port; for each
onion that the node shall connect to, the sidecar opens a port of loopback, and gives it to
the node by admin_addPeer. Sidecars and relays tell each other of nodes by onr/1. Name at
least one of them with --static to begin with.

The sidecar has an identity of its own, and does not know the node's key.

With --only-onion the sidecar looks at what the node shows of itself outside Tor: the sockets
of its process, its record, its peers, and geth's command line. While it shows anything, the
sidecar says what and how to end that, and opens no onion. Sockets are looked at four times
a second, and one that was seen once counts until the node is started again. Clients other
than geth are judged by that alone, after a minute. A geth that passes:

  geth --nodiscover --nat none --netrestrict 127.0.0.0/8 --config FILE

where FILE has: [Node.P2P] ListenAddr = "127.0.0.1:30303"

The consensus client beside geth has a peer-to-peer network of its own, which this does not
cover.

Standard output has a line for each change: "node up" or "node away", "onion ADDRESS",
"record ENR", "private", "not private: WHY", "peers N" (nodes of which the node was told), and
"nobody: WHAT TO GIVE" if no node is known.`

const sidecarExample = `  chive-eth sidecar --ipc ~/.ethereum/geth.ipc --only-onion --static enr:-...
  chive-eth sidecar --ipc ~/.ethereum/geth.ipc --tor-proxy 127.0.0.1:9050 --static nodes.txt`

// sidecarSettings are the flags of chive-eth sidecar.
type sidecarSettings struct {
	tor
	finding
	ipc, rpcURL          string
	p2pPort, port        int
	dataDir              string
	static               []string
	maxPeers, maxInbound int
	metrics              string
	verbose              bool
}

func sidecarCommand() *cobra.Command {
	s := new(sidecarSettings)
	cmd := &cobra.Command{
		Use:     "sidecar --ipc PATH | --rpc-url URL",
		Short:   "Put an onion beside a geth that already runs",
		Long:    sidecarLong,
		Example: sidecarExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return s.run(cmd) },
	}
	s.torFlags(cmd)
	s.finding.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&s.ipc, "ipc", "", "the node's IPC `SOCKET`: geth.ipc in its data directory")
	f.StringVar(&s.rpcURL, "rpc-url", "", "the `URL` of the node's JSON-RPC with admin_*, in place of --ipc: http://127.0.0.1:8545")
	f.BoolVar(&s.only, "only-onion", false, "open no onion while the node shows itself outside Tor")
	f.StringVar(&s.networkFile, "network", "", "the `FILE` of a private Tor network (default: the public one)")
	f.IntVar(&s.p2pPort, "p2p-port", 0, "the node's peer-to-peer `PORT` (default: the node says it)")
	f.IntVar(&s.port, "listen", 30303, "the `PORT` of the onion")
	f.StringVar(&s.dataDir, "data-dir", "", "the `DIR` for keys and known nodes (default ~/.chive-eth)")
	f.StringArrayVar(&s.static, "static", nil, "a `NODE` to begin with: an ENR, an enode URL with an onion, or a file with one in each line")
	f.IntVar(&s.maxPeers, "maxpeers", 16, "`NUMBER` of onions that the node is told to connect to")
	f.IntVar(&s.maxInbound, "max-inbound", 32, "`NUMBER` of connections that the onion passes to the node")
	f.StringVar(&s.metrics, "metrics", "", "serve metrics for Prometheus at an `ADDR` of loopback, such as 127.0.0.1:9189")
	f.BoolVar(&s.verbose, "verbose", false, "log more")
	return cmd
}

func (s *sidecarSettings) run(cmd *cobra.Command) (err error) {
	if (s.ipc == "") == (s.rpcURL == "") {
		return errors.New("either --ipc or --rpc-url is needed: the path of the node's IPC socket, or where its JSON-RPC with admin_* is")
	}
	if err := positive(number{"listen", s.port}, number{"maxpeers", s.maxPeers}, number{"max-inbound", s.maxInbound}); err != nil {
		return err
	}
	if err := errors.Join(port("p2p-port", s.p2pPort), loopback(map[string]string{"metrics": s.metrics})); err != nil {
		return err
	}
	level := slog.LevelInfo
	if s.verbose {
		level = slog.LevelDebug
	}
	log := program.NewLog(level, cmd.ErrOrStderr())
	static, err := find.Nodes(s.static)
	if err != nil {
		return fmt.Errorf("--static: %w", err)
	}
	for i, n := range static {
		if _, _, err := devp2p.OnionOf(n); err != nil {
			return fmt.Errorf("--static, node %d: %w", i+1, err)
		}
	}
	listed, err := s.finding.files()
	if err != nil {
		return err
	}
	dir, lock, err := ownDir(s.dataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	onions, closeOnions, err := s.open(devp2p.OnlyOnion, dir, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeOnions()) }()
	said := &said{out: cmd.OutOrStdout(), only: s.only, alone: len(static) == 0 && s.finding.nowhere()}
	side, err := sidecar.New(sidecar.Config{IPC: s.ipc, URL: s.rpcURL, P2PPort: s.p2pPort, Dir: dir, Onions: onions, IsolatePeers: s.isolate, Port: s.port,
		Static: static, MaxPeers: s.maxPeers, MaxInbound: s.maxInbound, OnlyOnion: s.only, Report: said.report, Log: log})
	if err != nil {
		return err
	}
	for _, n := range listed {
		if err := side.Add(n, "list"); err != nil {
			log.Debug("a node of a list cannot be used", "err", err)
		}
	}
	services, err := s.finding.inside(&s.tor, devp2p.OnlyOnion, dir, log, side.Add)
	if err != nil {
		return err
	}
	began := time.Now()
	status, err := serveStatus(dir, func() any {
		return map[string]any{"sidecar": newSidecarStatus(side.Status(), began)}
	})
	if err != nil {
		return err
	}
	services = append(services, status, side.Run)
	if s.metrics != "" {
		serve, err := serveMetrics(s.metrics, side.Register)
		if err != nil {
			return fmt.Errorf("--metrics: %w", err)
		}
		services = append(services, serve)
	}
	return runAll(cmd.Context(), services)
}

// said prints what changed.
type said struct {
	out  io.Writer
	only bool
	last sidecar.Status
	any  bool // something was printed

	// alone says that no flag names a node, or a place to find some, and that nobody was told so yet.
	alone bool
}

func (p *said) report(s sidecar.Status) {
	line := func(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }
	last := p.last
	if s.Node != last.Node || !p.any {
		line("node %s", map[bool]string{true: "up", false: "away"}[s.Node])
	}
	if p.only && s.Node {
		for _, l := range s.Leaks {
			if !slices.ContainsFunc(last.Leaks, func(o sidecar.Leak) bool { return o.What == l.What }) {
				line("not private: %s", l.Text())
			}
		}
	}
	if s.Problem != "" && s.Problem != last.Problem {
		line("problem: %s", s.Problem)
	}
	if s.Onion != "" && s.Onion != last.Onion {
		line("onion %s", s.Onion.Addr())
	}
	if s.Onion == "" && last.Onion != "" {
		line("no onion")
	}
	if s.Record != nil && (last.Record == nil || s.Record.Seq() != last.Record.Seq()) {
		line("record %s", s.Record)
	}
	if s.Private && !last.Private {
		line("private")
	}
	if s.Forwards != last.Forwards {
		line("peers %d", s.Forwards)
	}
	if p.alone && s.Record != nil && s.Known+s.Nodes+s.Inbound == 0 {
		p.alone = false
		line("nobody: no node is known, and geth gets no peer until somebody comes to the onion. %s.", whatToGive)
	}
	p.last, p.any = s, true
}
