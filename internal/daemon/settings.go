// Package daemon runs a client as a process: its settings, its front doors,
// its status socket and metrics, and its life from start to drain.
package daemon

import (
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/socks"
)

// DefaultSOCKS is where the SOCKS door opens unless told otherwise: C tor's
// port.
const DefaultSOCKS = "127.0.0.1:9050"

// Settings are everything that a user can tell the program, by flags or by a
// configuration file with the same names. Make them with NewSettings.
type Settings struct {
	Client      chive.Config // Network and Logger are set later
	NetworkFile string       // empty: the public network

	SOCKS   []string // where each door opens, as socks.CheckAddr has it
	HTTP    []string
	DNS     []string
	Metrics string // empty: none

	ExtendedErrors    bool // proposal 304, on every SOCKS door
	IsolateClientAddr bool
	IsolateProtocol   bool
	MaxConnections    int // of each door

	Drain     time.Duration // how long open connections may go on after SIGTERM
	Sandbox   string        // "off", "auto" or "require"
	LogLevel  slog.Level
	LogFormat string // "text" or "json"

	optionSet
}

// NewSettings returns the defaults, bound to flags in fs: a client's options,
// and with doors also those of a proxy. Without them a configuration file may
// still have a proxy's options, so that one file serves every command.
func NewSettings(fs *pflag.FlagSet, doors bool) *Settings {
	s := &Settings{optionSet: newOptionSet(fs), SOCKS: []string{DefaultSOCKS}, IsolateClientAddr: true, MaxConnections: socks.DefaultMaxConns}
	s.clientFlags(fs)
	if doors {
		s.doorFlags(fs)
	} else {
		s.doorFlags(s.fileOnly)
	}
	logFlags(fs, &s.LogLevel, &s.LogFormat)
	fs.SortFlags = false
	return s
}

// logFlags are the options of every daemon's log.
func logFlags(fs *pflag.FlagSet, level *slog.Level, format *string) {
	fs.TextVar(level, "log-level", slog.LevelInfo, "lowest `LEVEL` to log: debug, info, warn or error")
	fs.StringVar(format, "log-format", "text", "`FORMAT` of the log: text or json")
}

func (s *Settings) clientFlags(fs *pflag.FlagSet) {
	c := &s.Client
	fs.StringVar(&s.NetworkFile, "network", "", "network `FILE`; without it, the public network")
	fs.StringVar(&c.DataDir, "data-dir", "", "`DIR` for guards and the directory cache (default $XDG_STATE_HOME/chive)")
	fs.StringSliceVar(&c.EntryNodes, "entry-nodes", nil, "`RELAYS` wanted as guards: fingerprints, nicknames, addresses")
	fs.StringSliceVar(&c.MiddleNodes, "middle-nodes", nil, "`RELAYS` wanted as middles")
	fs.StringSliceVar(&c.ExitNodes, "exit-nodes", nil, "`RELAYS` wanted as exits")
	fs.StringSliceVar(&c.ExcludeNodes, "exclude-nodes", nil, "`RELAYS` never to be used")
	fs.StringSliceVar(&c.ExcludeExitNodes, "exclude-exit-nodes", nil, "`RELAYS` never to be used as exits")
	fs.BoolVar(&c.StrictNodes, "strict-nodes", false, "fail when no wanted relay can be used")
	fs.IntVar(&c.NumEntryGuards, "num-entry-guards", 0, "`NUMBER` of guards for traffic (0: as the consensus says)")
	fs.IntVar(&c.NumDirectoryGuards, "num-directory-guards", 0, "`NUMBER` of guards for directory requests (0: as the consensus says)")
	fs.StringArrayVar(&c.Bridges, "bridge", nil, "`LINE` of a bridge: [transport] IP:PORT [FINGERPRINT] [KEY=VALUE ...]; may be repeated")
	fs.StringArrayVar(&c.ClientTransportPlugins, "transport-plugin", nil, "`LINE` of a transport: 'obfs4 exec /usr/bin/obfs4proxy'; may be repeated")
	fs.BoolVar(&c.IsolateDestAddr, "isolate-dest-addr", false, "keep streams to different hosts on different circuits")
	fs.BoolVar(&c.IsolateDestPort, "isolate-dest-port", false, "keep streams to different ports on different circuits")
	fs.DurationVar(&c.MaxCircuitDirtiness, "max-circuit-dirtiness", 0, "`TIME` that a used circuit takes new streams (0: 10m)")
	fs.DurationVar(&c.CircuitBuildTimeout, "circuit-build-timeout", 0, "`TIME` to build a circuit (0: learned)")
	fs.DurationVar(&c.StreamTimeout, "stream-timeout", 0, "`TIME` for an exit to connect before another is tried (0: 10s, then 15s)")
	fs.TextVar(&c.ClientRejectInternalAddresses, "client-reject-internal-addresses", chive.SwitchAuto, "refuse requests for private addresses and local names: `MODE` auto (on, but for private networks), on or off")
	fs.TextVar(&c.ClientDNSRejectInternalAddresses, "client-dns-reject-internal-addresses", chive.SwitchAuto, "do not believe exits that a name has a private address: `MODE` auto (on, but for private networks), on or off")
	fs.TextVar(&c.CGO, "cgo", chive.SwitchAuto, "counter galois onion encryption: `MODE` auto, on or off")
	fs.TextVar(&c.CongestionControl, "congestion-control", chive.SwitchAuto, "congestion control: `MODE` auto, on or off")
	fs.TextVar(&c.Conflux, "conflux", chive.SwitchAuto, "traffic over two circuits at once: `MODE` auto, on or off")
	fs.TextVar(&c.PQ, "pq", chive.PQPrefer, "post-quantum circuits: `POLICY` off, prefer, require-one or require-all")
	fs.TextVar(&c.Padding, "padding", chive.PaddingFull, "channel padding: `MODE` full, reduced or off")
	fs.Uint64Var(&c.MaxMemory, "max-memory", 0, "`BYTES` that relays can make the client hold; over it, the circuits that hold the most are closed (0: 512 MiB)")
}

func (s *Settings) doorFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&s.SOCKS, "socks", s.SOCKS, "`ADDR` of a SOCKS 4, 4a and 5 proxy: a port, IP:PORT or unix:PATH; \"\" for none")
	fs.StringSliceVar(&s.HTTP, "http", nil, "`ADDR` of an HTTP CONNECT proxy")
	fs.StringSliceVar(&s.DNS, "dns", nil, "`ADDR` of a DNS port, UDP and TCP")
	fs.StringVar(&s.Metrics, "metrics", "", "`ADDR` of /metrics and /metrics.json over HTTP")
	fs.BoolVar(&s.ExtendedErrors, "extended-errors", false, "SOCKS 5 replies tell why an onion service failed (proposal 304)")
	fs.BoolVar(&s.IsolateClientAddr, "isolate-client-addr", s.IsolateClientAddr, "keep programs at different addresses on different circuits")
	fs.BoolVar(&s.IsolateProtocol, "isolate-protocol", false, "keep SOCKS 4, SOCKS 5, HTTP and DNS on different circuits")
	fs.IntVar(&s.MaxConnections, "max-connections", s.MaxConnections, "`NUMBER` of connections that a door takes at a time")
	fs.StringVar(&s.Sandbox, "sandbox", sandboxOff, sandboxFlag)
	fs.DurationVar(&s.Drain, "drain", 30*time.Second, "`TIME` that connections may go on after SIGTERM")
}

// Check reports the first setting that cannot be used. It opens nothing but
// the network file.
func (s *Settings) Check() error {
	for _, d := range s.doors() {
		for _, a := range d.addrs {
			if err := socks.CheckAddr(a); err != nil {
				return fault.New(fault.Config, "%s: %w", d.name, err)
			}
		}
	}
	switch {
	case s.LogFormat != "text" && s.LogFormat != "json":
		return fault.New(fault.Config, "log-format: %q is neither text nor json", s.LogFormat)
	case s.MaxConnections < 1 || s.MaxConnections > 1_000_000:
		return fault.New(fault.Config, "max-connections: %d is not from 1 to 1000000", s.MaxConnections)
	case s.Drain < 0:
		return fault.New(fault.Config, "drain: %v is negative", s.Drain)
	}
	if err := checkSandbox(s.Sandbox); err != nil {
		return err
	}
	network, err := s.network()
	if err != nil {
		return err
	}
	c := s.Client
	c.Network = network
	return c.Check()
}

// doorAddrs is one kind of door and where it opens.
type doorAddrs struct {
	name  string
	addrs []string
}

// doors lists the listening addresses under their options' names.
func (s *Settings) doors() []doorAddrs {
	d := []doorAddrs{{"socks", given(s.SOCKS)}, {"http", given(s.HTTP)}, {"dns", given(s.DNS)}}
	if s.Metrics != "" {
		d = append(d, doorAddrs{"metrics", []string{s.Metrics}})
	}
	return d
}

// given drops empty entries: --socks "" opens no SOCKS door.
func given(addrs []string) []string {
	var out []string
	for _, a := range addrs {
		if a != "" {
			out = append(out, a)
		}
	}
	return out
}

// network loads the network file.
func (s *Settings) network() (*chive.Network, error) {
	if s.NetworkFile == "" {
		return chive.PublicNetwork(), nil
	}
	return chive.LoadNetwork(s.NetworkFile)
}

// ClientConfig returns the configuration of the client, with its network and
// data directory filled in.
func (s *Settings) ClientConfig(log *slog.Logger) (chive.Config, error) {
	c := s.Client
	c.Logger = log
	var err error
	if c.Network, err = s.network(); err != nil {
		return c, err
	}
	if c.DataDir == "" {
		c.DataDir, err = chive.DefaultDataDir()
	}
	return c, err
}
