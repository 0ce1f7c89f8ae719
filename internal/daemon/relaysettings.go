package daemon

import (
	"log/slog"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/socks"
	"github.com/chivenet/chive/relay"
)

// RelaySettings are everything that a relay's operator can tell the program, by
// flags or by a configuration file with the same names. Make them with
// NewRelaySettings.
type RelaySettings struct {
	Relay       relay.Config // Network and Logger are set later
	NetworkFile string       // empty: the public network
	Metrics     string       // empty: none
	Sandbox     string       // "off", "auto" or "require"
	LogLevel    slog.Level
	LogFormat   string // "text" or "json"

	optionSet
}

// NewRelaySettings returns the defaults, bound to flags in fs.
func NewRelaySettings(fs *pflag.FlagSet) *RelaySettings {
	s := &RelaySettings{optionSet: newOptionSet(fs)}
	cfg := &s.Relay
	fs.StringVar(&s.NetworkFile, "network", "", "network `FILE`; without it, the public network")
	fs.StringVar(&cfg.DataDir, "data-dir", "", "`DIR` for keys and the directory cache (default $XDG_STATE_HOME/chive/relay)")
	fs.BoolVar(&cfg.OfflineMasterKey, "offline-master-key", false, "the master key is kept elsewhere ('chive keys relay'): neither make nor read it")
	fs.StringVar(&cfg.Nickname, "nickname", "Unnamed", "`NAME` of the relay: 1 to 19 letters and digits")
	fs.StringVar(&cfg.Contact, "contact", "", "how others reach you: `TEXT`, public")
	fs.StringSliceVar(&cfg.Family, "family", nil, "`FINGERPRINTS` of your other relays")
	fs.StringVar(&cfg.FamilyFile, "family-file", "", "`FILE` with more of them, between white space and commas")
	fs.StringSliceVar(&cfg.FamilyIDs, "family-id", nil, "`IDENTITIES` of your families, whose keys ('chive keys family') are in DIR/keys; * for every key there")
	fs.StringSliceVar(&cfg.ORPort, "orport", nil, "`ADDR` to listen at: PORT or IP:PORT; more than one may be given")
	fs.StringSliceVar(&cfg.Address, "address", nil, "`ADDR` that others reach the ORPort at, IP:PORT, when it is another one")
	fs.StringVar(&cfg.DirPort, "dirport", "", "`ADDR` to serve the directory at over plain HTTP, IP:PORT (default: only through the ORPort)")
	fs.BoolVar(&cfg.NoDirCache, "no-dir-cache", false, "do not serve the directory to others")
	fs.BoolVar(&cfg.CacheExtraInfo, "cache-extra-info", false, "keep other relays' extra-info documents, and serve them")
	fs.StringSliceVar(&cfg.ExitPolicy, "exit-policy", nil, "`LINES` such as 'accept *:443,reject *:*', or 'default'; without any the relay is no exit")
	fs.BoolVar(&cfg.ExitPrivate, "exit-private", false, "let streams out to private networks, as far as the exit policy does")
	fs.BoolVar(&cfg.IPv6Exit, "ipv6-exit", false, "let streams out to IPv6 addresses too")
	fs.StringSliceVar(&cfg.Nameservers, "nameserver", nil, "`ADDR` of a name server, IP:PORT (default: those of the system)")
	fs.BoolVar(&cfg.Bridge, "bridge", false, "be a bridge: a relay that is in no list; standard output has a line \"bridge LINE\" for each way in")
	fs.StringArrayVar(&cfg.ServerTransportPlugins, "transport-plugin", nil, "`LINE` of a bridge's transport: 'obfs4 exec /usr/bin/obfs4proxy'; may be repeated")
	fs.StringArrayVar(&cfg.ServerTransportListen, "transport-listen", nil, "`LINE` that says where a transport listens: 'obfs4 IP:PORT'; may be repeated")
	fs.StringArrayVar(&cfg.ServerTransportOptions, "transport-options", nil, "`LINE` of what a transport is told: 'obfs4 KEY=VALUE ...'; may be repeated")
	fs.Uint64Var(&cfg.BandwidthRate, "bandwidth-rate", 0, "`BYTES` a second that all links together may read, and write (0: no bound)")
	fs.Uint64Var(&cfg.BandwidthBurst, "bandwidth-burst", 0, "`BYTES` that may come at once (0: as much as in a second)")
	fs.Uint64Var(&cfg.MaxAdvertised, "max-advertised", 0, "`BYTES` a second that the relay offers at most (0: no bound)")
	fs.BoolVar(&cfg.AssumeReachable, "assume-reachable", false, "publish without testing the ORPort")
	fs.DurationVar(&cfg.ShutdownWait, "shutdown-wait", 0, "`TIME` that circuits may go on after SIGTERM (0: 30s, negative: none)")
	fs.Uint64Var(&cfg.MaxMemory, "max-memory", 0, "`BYTES` that others can make the relay hold; over it, those that hold the most are closed (0: 512 MiB)")
	fs.StringVar(&s.Metrics, "metrics", "", "`ADDR` of /metrics and /metrics.json over HTTP")
	fs.StringVar(&s.Sandbox, "sandbox", sandboxOff, sandboxFlag)
	logFlags(fs, &s.LogLevel, &s.LogFormat)
	fs.SortFlags = false
	return s
}

// relayLive are the options that a running relay takes over when it is told to
// reload; the others wait for its next start.
var relayLive = map[string]bool{
	"contact": true, "family": true, "family-file": true, "family-id": true,
	"exit-policy": true, "exit-private": true, "ipv6-exit": true, "nameserver": true,
	"bandwidth-rate": true, "bandwidth-burst": true, "max-advertised": true, "shutdown-wait": true, "max-memory": true, "log-level": true,
}

// Check reports the first setting that cannot be used. It reads the files that
// settings name, and opens nothing else.
func (s *RelaySettings) Check() error {
	if s.LogFormat != "text" && s.LogFormat != "json" {
		return fault.New(fault.Config, "log-format: %q is neither text nor json", s.LogFormat)
	}
	if err := checkSandbox(s.Sandbox); err != nil {
		return err
	}
	if s.Metrics != "" {
		if err := socks.CheckAddr(s.Metrics); err != nil {
			return fault.New(fault.Config, "metrics: %w", err)
		}
	}
	cfg, err := s.Config(nil)
	if err != nil {
		return err
	}
	return cfg.Check()
}

// Config returns the configuration of the relay, with its network and data
// directory filled in.
func (s *RelaySettings) Config(log *slog.Logger) (relay.Config, error) {
	cfg := s.Relay
	cfg.Logger = log
	if s.NetworkFile != "" {
		var err error
		if cfg.Network, err = chive.LoadNetwork(s.NetworkFile); err != nil {
			return cfg, err
		}
	}
	if cfg.DataDir == "" {
		dir, err := chive.DefaultDataDir()
		if err != nil {
			return cfg, err
		}
		cfg.DataDir = filepath.Join(dir, "relay")
	}
	return cfg, nil
}
