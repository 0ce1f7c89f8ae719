package relay

import (
	"cmp"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/hibernate"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/pt"
	"github.com/chivenet/chive/internal/ptspec"
	"github.com/chivenet/chive/internal/ram"
	"github.com/chivenet/chive/internal/relay"
	"github.com/chivenet/chive/internal/tomlfile"
	"github.com/chivenet/chive/internal/version"
)

// Config has the settings of a relay. Reload can change the fields with the tag
// reload:"live".
type Config struct {
	// Network is the Tor network that the relay belongs to; nil is the public
	// one.
	Network *chive.Network
	// DataDir keeps the keys, which are the relay's identity, and the directory
	// cache. New creates it with mode 0700, and one relay at a time uses it. Key
	// files have C tor's formats.
	DataDir string
	// KeyDir keeps the keys elsewhere, as C tor's KeyDirectory does. New creates it with
	// mode 0700, and one relay at a time uses it. Empty: "keys" in DataDir.
	KeyDir string
	// Logger receives the relay's log; nil: no log.
	Logger *slog.Logger

	Nickname string // 1 to 19 letters and digits
	Contact  string `reload:"live"` // how operators of the network reach you

	// Family lists the fingerprints of your other relays. The file FamilyFile
	// lists more of them, separated by white space or commas. FamilyIDs are the
	// identities of your families (MakeFamilyKey), whose keys are with the relay's; "*"
	// means every key there.
	Family     []string `reload:"live"`
	FamilyFile string   `reload:"live"`
	FamilyIDs  []string `reload:"live"`

	// ORPort are the addresses to listen at, "IP:PORT" or "PORT" for all of
	// IPv4. Port 0 picks one.
	ORPort []string
	// Address are the addresses at which others reach the ORPort: one of IPv4, and
	// optionally one of IPv6, each "IP:PORT", or "IP" if the port is the ORPort's. A name
	// may stand for an IP: New looks it up, by the system's name servers. Empty: those
	// of ORPort, or, if these are for all addresses or a bridge's transports are before
	// them, the public IPv4 address of this machine, which must then have one and not
	// several.
	Address []string

	// OutboundBindAddress are addresses of this machine, one of IPv4 and one of IPv6, from
	// which the relay connects to others. OutboundBindAddressOR count before them for links
	// to relays and authorities, OutboundBindAddressExit for the connections of streams, and
	// OutboundBindAddressPT for pluggable transports, which are asked to use them. They do not
	// count for connections inside this machine, and for questions to name servers.
	// Connections fail while it does not have the address. Without them, links come from an
	// address of ORPort, if there is one that can reach the peer.
	OutboundBindAddress     []string
	OutboundBindAddressOR   []string
	OutboundBindAddressExit []string
	OutboundBindAddressPT   []string

	// NoDirCache keeps the relay from serving the directory to others. DirPort,
	// "IP:PORT", serves it over plain HTTP too; empty: only the ORPort serves it.
	// CacheExtraInfo makes the relay keep other relays' extra-info documents.
	NoDirCache     bool
	DirPort        string
	CacheExtraInfo bool

	// ExitPolicy lets streams out, by lines such as "accept *:443" or "reject
	// 192.0.2.0/24:*", and the first line that matches decides. Without lines, or with
	// lines that refuse everything, the relay is not an exit. The default policy follows the lines, and "default"
	// alone selects it: it refuses the ports that are abused most, and accepts
	// all others. So end a complete policy of your own with "reject *:*" or
	// "accept *:*". Private networks and the relay's own addresses are refused
	// before any line applies, unless ExitPrivate is set.
	ExitPolicy  []string `reload:"live"`
	ExitPrivate bool     `reload:"live"`
	// ReducedExitPolicy puts C tor's reduced policy in the place of the default one: it
	// accepts the ports of some 90 well-known services, and no others. A relay with it
	// is an exit without lines too.
	ReducedExitPolicy bool `reload:"live"`
	// IPv6Exit lets streams out to IPv6 addresses too.
	IPv6Exit bool `reload:"live"`
	// Nameservers are the name servers, "IP:PORT", that an exit asks; none: those
	// of the system.
	Nameservers []string `reload:"live"`

	// Bridge keeps the relay out of the network's lists: only the users to whom
	// you give a line of BridgeLines know of it. ServerTransportPlugins start
	// pluggable transports: "obfs4 exec /usr/bin/obfs4proxy".
	// ServerTransportListen sets the address of a transport, "obfs4 IP:PORT", and
	// ServerTransportOptions its options, "obfs4 iat-mode=1". The transports chive and fte
	// (package fte) need no plugin: a bridge offers each for which there is an address or
	// an option, inside this process.
	Bridge                 bool
	ServerTransportPlugins []string
	ServerTransportListen  []string
	ServerTransportOptions []string
	// Transports are transports of the program's own, all of which the bridge offers. They
	// come before chive and fte, and none may have the name of a plugin, too. What
	// peers make transports inside this process hold is a quarter of MaxMemory at most.
	Transports map[string]Transport

	// BandwidthRate bounds the bytes a second that all links together read, and
	// the bytes a second that they write; 0: no bound. BandwidthBurst is how many
	// bytes may come at once; 0: as many as in a second.
	BandwidthRate, BandwidthBurst uint64 `reload:"live"`
	// AccountingMax bounds the bytes of an interval, such as a month; 0: no bound. When
	// little is left, the relay takes no new connections, circuits and streams, and its
	// descriptor says that it hibernates. When nothing is left, it closes its ports and links
	// until the interval ends. From the second interval on it may also begin to serve later,
	// at a time that differs between relays, if its bytes do not last for a whole one.
	// AccountingRule says which bytes count: "max" or "" (those read or those written,
	// whichever are more), "sum", "in" or "out". AccountingStart is when an interval begins,
	// in local time: "month DAY HH:MM", "week DAY HH:MM" or "day HH:MM"; empty: "month 1
	// 0:00".
	AccountingMax   uint64 `reload:"live"`
	AccountingRule  string `reload:"live"`
	AccountingStart string `reload:"live"`
	// OfflineMasterKey says that the relay's Ed25519 master key is kept elsewhere
	// (MakeKeys): the relay neither makes nor reads it.
	OfflineMasterKey bool
	// MaxAdvertisedBandwidth bounds the bandwidth that the relay advertises, in bytes a
	// second; 0: no bound.
	MaxAdvertisedBandwidth uint64 `reload:"live"`
	// AssumeReachable publishes the descriptor without a test of the ORPort.
	AssumeReachable bool
	// NoPublish keeps the descriptor from the authorities, so that no list has the relay.
	NoPublish bool
	// ShutdownWait is how long open circuits may continue after Shutdown begins;
	// 0: 30 seconds, negative: not at all.
	ShutdownWait time.Duration `reload:"live"`
	// MaxMemory bounds what peers can make the relay hold, in bytes: queued
	// cells, connections, requests. Above it, the relay closes the peers that
	// hold the most. 0: by the memory of the machine or of the container, two fifths
	// of it, or three quarters if it is less than 8 GiB, and at most 8 GiB; Status has
	// the number. 32 MiB is the least. The process needs about 64 MB more, and with the
	// public network's directory 100 MB; a program that sets Go's memory limit
	// (debug.SetMemoryLimit) must allow for all of it.
	MaxMemory uint64 `reload:"live"`
}

// Check reports the first option that New would refuse. It reads the files
// that options name, and opens nothing else; it looks up no name.
func (cfg *Config) Check() error {
	inner, err := cfg.inner(checking.addresses)
	if err != nil {
		return err
	}
	return inner.Check()
}

// inner returns the configuration for the internal package. find returns where others reach
// the relay: see finder.addresses.
func (cfg *Config) inner(find func(cfg *Config, listen []netip.AddrPort, private bool) ([]netip.AddrPort, error)) (relay.Config, error) {
	out := relay.Config{
		DataDir: cfg.DataDir, KeyDir: cfg.KeyDir, Log: cfg.Logger, Nickname: cfg.Nickname, Contact: cfg.Contact, Family: cfg.Family, FamilyIDs: cfg.FamilyIDs,
		Rate: cfg.BandwidthRate, Burst: cfg.BandwidthBurst, MaxAdvertisedBandwidth: cfg.MaxAdvertisedBandwidth, AssumeReachable: cfg.AssumeReachable, NoPublish: cfg.NoPublish, ShutdownWait: cfg.ShutdownWait, Version: version.String(), OfflineMaster: cfg.OfflineMasterKey,
	}
	var err error
	if err = options.Relay.Check(cfg); err != nil {
		return out, err
	}
	var exits netaddr.Sources
	if exits, err = cfg.outbound(&out); err != nil {
		return out, err
	}
	if out.Accounting, err = cfg.accounting(); err != nil {
		return out, err
	}
	out.MemoryOption, out.MemoryWhy = ram.MaxMemory(cfg.MaxMemory)
	out.MaxMemory = account.BoundOf(out.MemoryOption)
	network := cfg.Network
	if network == nil {
		network = chive.PublicNetwork()
	}
	if out.Network, err = netfile.Of(network); err != nil {
		return out, err
	}
	if cfg.FamilyFile != "" {
		text, err := atomicfile.ReadRegular(cfg.FamilyFile, tomlfile.MaxSize) // again and again
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
	if out.Advertise, err = find(cfg, out.Listen, out.Network.Testing.AllowPrivateAddresses); err != nil {
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
	nameservers, err := addrPorts("Nameservers", cfg.Nameservers)
	if err != nil || len(cfg.ExitPolicy) == 0 && !cfg.ReducedExitPolicy {
		return out, err
	}
	ec := &exit.Config{Source: exits, IPv6: cfg.IPv6Exit, Private: cfg.ExitPrivate}
	ec.Policy, err = exit.WholePolicy(cfg.ExitPolicy, exit.PolicyOptions{Private: cfg.ExitPrivate, IPv6: cfg.IPv6Exit, Reduced: cfg.ReducedExitPolicy, Own: out.Published()})
	if err != nil || !ec.Policy.Accepts() { // "reject *:*" makes no exit
		return out, err
	}
	ec.Nameservers = nameservers
	out.Exit = ec
	return out, nil
}

// outbound reads the source addresses, and returns those of streams.
func (cfg *Config) outbound(out *relay.Config) (exits netaddr.Sources, err error) {
	all, err := options.Sources("OutboundBindAddress", cfg.OutboundBindAddress, netaddr.Sources{})
	if err == nil {
		out.Outbound.OR, err = options.Sources("OutboundBindAddressOR", cfg.OutboundBindAddressOR, all)
	}
	if err == nil {
		out.Outbound.PT, err = options.Sources("OutboundBindAddressPT", cfg.OutboundBindAddressPT, all)
	}
	if err == nil {
		exits, err = options.Sources("OutboundBindAddressExit", cfg.OutboundBindAddressExit, all)
	}
	return exits, err
}

// accounting reads the limit of bytes; options.Relay has checked it.
func (cfg *Config) accounting() (relay.Accounting, error) {
	rule, ok := hibernate.RuleOf(cmp.Or(cfg.AccountingRule, hibernate.Max.String()))
	if !ok {
		return relay.Accounting{}, options.Wrong("AccountingRule", "%w", options.NotOneOf(cfg.AccountingRule, hibernate.Rules))
	}
	when, err := hibernate.ParseSchedule(cmp.Or(cfg.AccountingStart, hibernate.DefaultSchedule))
	if err != nil {
		return relay.Accounting{}, options.In("AccountingStart", err)
	}
	return relay.Accounting{Max: cfg.AccountingMax, Rule: rule, Periods: when}, nil
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
	out.TransportListen, out.TransportOptions = map[string]netip.AddrPort{}, map[string]ptspec.Args{}
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
		args := ptspec.Args{}
		for _, kv := range f[1:] {
			k, v, ok := strings.Cut(kv, "=")
			if !ok || k == "" {
				return options.Wrong("ServerTransportOptions", "%q is not NAME KEY=VALUE ...", s)
			}
			args[k] = v
		}
		out.TransportOptions[f[0]] = args
	}
	return cfg.inside(out)
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
