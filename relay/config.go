package relay

import (
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/pt"
	"github.com/chivenet/chive/internal/relay"
	"github.com/chivenet/chive/internal/version"
)

// Config is what a relay needs to be told. Reload takes over the fields that are
// marked with reload:"live".
type Config struct {
	// Network is the Tor network to be part of; nil is the public one.
	Network *chive.Network
	// DataDir keeps the keys, which are the relay's identity, and the directory
	// cache. It is made with mode 0700, and used by one relay at a time. C tor's
	// key files are understood, and are what is written.
	DataDir string
	// Logger receives what the relay has to say; nil is silence.
	Logger *slog.Logger

	Nickname string // 1 to 19 letters and digits
	Contact  string `reload:"live"` // how operators of the network reach you

	// Family are your other relays, by fingerprint, and FamilyFile has more of
	// them, between white space and commas. FamilyIDs are your families by key
	// (MakeFamilyKey), whose files are below "keys" in DataDir; "*" is every one
	// there.
	Family     []string `reload:"live"`
	FamilyFile string   `reload:"live"`
	FamilyIDs  []string `reload:"live"`

	// ORPort are the addresses to listen at, "IP:PORT" or "PORT" for all of
	// IPv4. Port 0 picks one.
	ORPort []string
	// Address are the addresses, "IP:PORT", that others reach the ORPort at,
	// when they are not the same: one of IPv4, and perhaps one of IPv6.
	Address []string

	// NoDirCache keeps the relay from serving the directory to others. DirPort is
	// where it does so over plain HTTP too, "IP:PORT"; empty: only through its
	// ORPort. CacheExtraInfo has it keep other relays' extra-info documents.
	NoDirCache     bool
	DirPort        string
	CacheExtraInfo bool

	// ExitPolicy lets streams out, by lines such as "accept *:443" or "reject
	// 192.0.2.0/24:*", of which the first that fits decides. Without any the
	// relay is no exit. After the lines comes the default policy, which "default"
	// stands for too: it refuses the ports that are mostly abused, and accepts
	// all others. So a policy of your own ends with "reject *:*" or "accept *:*".
	// Private networks and the relay's own addresses are refused before the lines
	// are looked at, unless ExitPrivate is set.
	ExitPolicy  []string `reload:"live"`
	ExitPrivate bool     `reload:"live"`
	// IPv6Exit lets streams out to IPv6 addresses too.
	IPv6Exit bool `reload:"live"`
	// Nameservers are what an exit asks, "IP:PORT"; none: those of the system.
	Nameservers []string `reload:"live"`

	// Bridge keeps the relay out of the network's lists: only those to whom you
	// give a line of BridgeLines know of it. ServerTransportPlugins offer other
	// ways in: "obfs4 exec /usr/bin/obfs4proxy". ServerTransportListen says where
	// one listens, "obfs4 IP:PORT", and ServerTransportOptions what it is told,
	// "obfs4 iat-mode=1".
	Bridge                 bool
	ServerTransportPlugins []string
	ServerTransportListen  []string
	ServerTransportOptions []string

	// BandwidthRate bounds what all links together read, and what they write, in
	// bytes a second; 0: no bound. BandwidthBurst, in bytes, may come at once; 0:
	// as much as in a second.
	BandwidthRate, BandwidthBurst uint64 `reload:"live"`
	// OfflineMasterKey says that the relay's Ed25519 master key is kept elsewhere
	// (MakeKeys): it is neither made nor read.
	OfflineMasterKey bool
	// MaxAdvertised bounds the bandwidth that the relay offers, in bytes a
	// second; 0: no bound.
	MaxAdvertised uint64 `reload:"live"`
	// AssumeReachable publishes the relay without a test of its ORPort.
	AssumeReachable bool
	// ShutdownWait is how long open circuits may go on when the relay is asked
	// to end; 0: 30 seconds, negative: not at all.
	ShutdownWait time.Duration `reload:"live"`
	// MaxMemory bounds what peers can make the relay hold, in bytes: cells that
	// wait, connections, requests. Over it, those that hold the most are closed.
	// 0: chive.DefaultMaxMemory; 32 MiB is the least. The process needs some 64 MB
	// besides; a program that sets Go's memory limit (debug.SetMemoryLimit) should
	// leave room for both.
	MaxMemory uint64 `reload:"live"`
}

// Check reports the first option that New would refuse. It reads the files
// that options name, and opens nothing else.
func (cfg *Config) Check() error {
	inner, err := cfg.inner()
	if err != nil {
		return err
	}
	return inner.Check()
}

func (cfg *Config) inner() (relay.Config, error) {
	out := relay.Config{
		DataDir: cfg.DataDir, Log: cfg.Logger, Nickname: cfg.Nickname, Contact: cfg.Contact, Family: cfg.Family, FamilyIDs: cfg.FamilyIDs,
		Rate: cfg.BandwidthRate, Burst: cfg.BandwidthBurst, MaxAdvertised: cfg.MaxAdvertised, AssumeReachable: cfg.AssumeReachable, ShutdownWait: cfg.ShutdownWait, Version: version.String(), OfflineMaster: cfg.OfflineMasterKey,
	}
	var err error
	if err = options.Relay.Check(cfg); err != nil {
		return out, err
	}
	out.MaxMemory = account.BoundOf(cfg.MaxMemory)
	network := cfg.Network
	if network == nil {
		network = chive.PublicNetwork()
	}
	if out.Network, err = netfile.Of(network); err != nil {
		return out, err
	}
	if cfg.FamilyFile != "" {
		text, err := os.ReadFile(cfg.FamilyFile)
		if err != nil {
			return out, options.Wrong("FamilyFile", "%w", err)
		}
		more, err := relay.ParseFamilyList(string(text))
		if err != nil {
			return out, err
		}
		out.Family = append(slices.Clip(out.Family), more...)
	}
	for _, s := range cfg.ORPort {
		if _, err := strconv.ParseUint(s, 10, 16); err == nil {
			s = "0.0.0.0:" + s
		}
		a, err := netip.ParseAddrPort(s)
		if err != nil {
			return out, options.Wrong("ORPort", "%q is neither PORT nor IP:PORT", s)
		}
		out.Listen = append(out.Listen, a)
	}
	if out.Advertise, err = addrPorts("Address", cfg.Address); err != nil {
		return out, err
	}
	out.Bridge, out.NoDir, out.ExtraInfo = cfg.Bridge, cfg.NoDirCache, cfg.CacheExtraInfo
	if cfg.DirPort != "" {
		if out.DirListen, err = netip.ParseAddrPort(cfg.DirPort); err != nil {
			return out, options.Wrong("DirPort", "%q is not IP:PORT", cfg.DirPort)
		}
	}
	if err := cfg.transports(&out); err != nil {
		return out, err
	}
	if len(cfg.ExitPolicy) == 0 {
		return out, nil
	}
	ec := &exit.Config{IPv6: cfg.IPv6Exit, Private: cfg.ExitPrivate}
	if ec.Policy, err = exit.WholePolicy(cfg.ExitPolicy, exit.PolicyOptions{Private: cfg.ExitPrivate, IPv6: cfg.IPv6Exit, Own: out.Addresses()}); err != nil {
		return out, err
	}
	if ec.Nameservers, err = addrPorts("Nameservers", cfg.Nameservers); err != nil {
		return out, err
	}
	out.Exit = ec
	return out, nil
}

// transports reads the options of a bridge's transports.
func (cfg *Config) transports(out *relay.Config) error {
	for _, s := range cfg.ServerTransportPlugins {
		l, err := pt.ParseTransportLine(s)
		if err != nil {
			return options.Wrong("ServerTransportPlugins", "%w", err)
		}
		out.Transports = append(out.Transports, l)
	}
	out.TransportListen, out.TransportOptions = map[string]netip.AddrPort{}, map[string]pt.Args{}
	for _, s := range cfg.ServerTransportListen {
		name, addr, _ := strings.Cut(s, " ")
		a, err := netip.ParseAddrPort(strings.TrimSpace(addr))
		if err != nil {
			return options.Wrong("ServerTransportListen", "%q is not NAME IP:PORT", s)
		}
		out.TransportListen[name] = a
	}
	for _, s := range cfg.ServerTransportOptions {
		f := strings.Fields(s)
		if len(f) < 2 {
			return options.Wrong("ServerTransportOptions", "%q is not NAME KEY=VALUE ...", s)
		}
		args := pt.Args{}
		for _, kv := range f[1:] {
			k, v, ok := strings.Cut(kv, "=")
			if !ok || k == "" {
				return options.Wrong("ServerTransportOptions", "%q is not NAME KEY=VALUE ...", s)
			}
			args[k] = v
		}
		out.TransportOptions[f[0]] = args
	}
	return nil
}

func addrPorts(field string, list []string) ([]netip.AddrPort, error) {
	var out []netip.AddrPort
	for _, s := range list {
		a, err := netip.ParseAddrPort(s)
		if err != nil {
			return nil, options.Wrong(field, "%q is not IP:PORT", s)
		}
		out = append(out, a)
	}
	return out, nil
}
