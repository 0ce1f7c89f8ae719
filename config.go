package chive

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/geoip"
	"github.com/chivenet/chive/internal/hsclient"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/pt"
	"github.com/chivenet/chive/internal/role"
	"github.com/chivenet/chive/internal/transport"
	"github.com/chivenet/chive/internal/upstream"
)

// Config has the settings of a client. The zero Config is a client of the public
// network, with the defaults that the consensus recommends.
//
// Reload can change the fields with the tag reload:"live".
//
// Options with C tor's names have the meaning that tor(1) gives them. If an
// option cannot be applied, New fails: it ignores none.
type Config struct {
	// Network is the Tor network to use; nil is the public one.
	Network *Network
	// DataDir keeps the guards, the directory cache and the learned build times
	// between runs. New creates it with mode 0700. One client at a time uses it,
	// and it has a directory for each network. Empty: see DefaultDataDir.
	DataDir string
	// Logger receives the client's log; nil: no log. No record names a
	// destination, and records name relays by the first digits of their
	// fingerprints.
	Logger *slog.Logger

	// EntryNodes, MiddleNodes and ExitNodes, if not empty, are the wanted relays
	// for each position: fingerprints (40 hexadecimal digits, with or without
	// "$"), nicknames, addresses, networks in CIDR notation, or countries such as
	// "{de}". A manual choice of relays makes a client distinguishable from others.
	EntryNodes  []string `reload:"live"`
	MiddleNodes []string `reload:"live"`
	ExitNodes   []string `reload:"live"`
	// ExcludeNodes are never used, ExcludeExitNodes never as the last hop.
	ExcludeNodes     []string `reload:"live"`
	ExcludeExitNodes []string `reload:"live"`
	// NodeFamilies are families of relays that do not say so themselves, each a list of
	// relays, written as in the lists above, with commas between them. No circuit uses two
	// relays of one, except those for onion services while there are Vanguards: for these,
	// no family counts (vanguards-spec), and an attacker learns nothing of your choice.
	NodeFamilies []string `reload:"live"`
	// StrictNodes makes a connection fail if none of the wanted relays can be
	// used; without it, the client uses others.
	StrictNodes bool `reload:"live"`
	// GeoIPFile and GeoIPv6File say in which countries addresses are. Each is a file of C tor's
	// form or a MaxMind database (MMDB); what it has inside says which.
	// They are read if a list of relays names a country, and again by Reload. Empty:
	// those of the package tor-geoipdb, in /usr/share/tor, of which the second may be
	// missing, and is not read if GeoIPFile is a MaxMind database with IPv6 addresses. A relay is where its IPv4 address is, or, if that is in no country, its
	// IPv6 address.
	GeoIPFile   string `reload:"live"`
	GeoIPv6File string `reload:"live"`
	// GeoIPExcludeUnknown says that ExcludeNodes and ExcludeExitNodes also exclude the
	// relays whose country nobody knows. SwitchAuto: each of them that names a country.
	GeoIPExcludeUnknown Switch `reload:"live"`
	// NumEntryGuards is the number of guards for traffic, and NumDirectoryGuards
	// the number for directory requests. 0: as the consensus recommends.
	NumEntryGuards     int
	NumDirectoryGuards int

	// Proxy is a proxy by which the client reaches all relays and bridges, as a URL:
	// "socks5://USER:PASSWORD@192.0.2.1:1080", "socks4://..." or "http://..." for one that
	// knows CONNECT, or "@" and a file with such a line, which is its owner's alone. Its
	// host is an IP address or localhost. Pluggable transports are told of it. If it
	// fails, there is no connection. Empty: none.
	Proxy string
	// OutboundBindAddress are addresses of this machine, one of IPv4 and one of IPv6, from
	// which the client connects to relays, bridges and the proxy, and an onion service to its
	// targets. OutboundBindAddressOR count before them but for targets, and
	// OutboundBindAddressPT for pluggable transports, which are asked to use them. They do
	// not count for connections inside this machine. Connections fail while it does not have
	// the address.
	OutboundBindAddress   []string
	OutboundBindAddressOR []string
	OutboundBindAddressPT []string
	// ReachableAddresses, if not empty, are the only addresses and ports to which the
	// client connects: rules such as "*:443", "192.0.2.0/24", "reject [2001:db8::]/32:*" or
	// "*4:*" for all of IPv4. The first rule that matches decides; what none accepts
	// cannot be reached. Guards and directories are chosen by it, and bridges that it
	// does not allow are not used.
	ReachableAddresses []string `reload:"live"`
	// MapAddress says that hosts stand for others: rules "FROM TO" for DialContext and
	// lookups. Each side is a name, an address, or "*.NAME" for NAME and all below it.
	MapAddress []string `reload:"live"`

	// Bridges, if not empty, are the only relays to which the client connects,
	// for circuits and for the directory: lines such as "192.0.2.1:443
	// FINGERPRINT" and "obfs4 192.0.2.1:443 FINGERPRINT cert=... iat-mode=0", as
	// bridges' operators give them. Without a fingerprint, the client accepts any
	// relay that answers at the address. EntryNodes cannot be used with bridges.
	// Reload with others ends what leads over those that are no more: guards, circuits and streams. A
	// client that began without bridges gets none, and one with bridges keeps some.
	Bridges []string `reload:"live"`
	// ClientTransportPlugins are the programs for the transports in bridge lines:
	// "obfs4 exec /usr/bin/obfs4proxy", optionally with arguments, or "NAME
	// socks5 IP:PORT" (or socks4) for a program that already runs. The transports chive and fte
	// (package fte) need none: without a line, they run inside this process.
	ClientTransportPlugins []string `reload:"live"`
	// Transports are transports of the program's own, by the names in bridge lines. They come
	// before chive and fte, and none may have the name of a plugin, too.
	Transports map[string]Transport

	// IsolateDestAddr and IsolateDestPort keep streams to different hosts or
	// ports on different circuits, in addition to Isolated.
	IsolateDestAddr bool `reload:"live"`
	IsolateDestPort bool `reload:"live"`

	// MaxCircuitDirtiness is how long after its first use a circuit gets new
	// streams. 0: 10 minutes.
	MaxCircuitDirtiness time.Duration `reload:"live"`
	// MaxClientCircuitsPending is how many circuits for streams, and ahead of them, are being
	// built at a time; more wait. Those of services that the client hosts do not count. 0: 32.
	MaxClientCircuitsPending int `reload:"live"`
	// CircuitBuildTimeout is how long a circuit may take to build. 0: the client
	// learns it from earlier circuits.
	CircuitBuildTimeout time.Duration
	// StreamTimeout is how long an exit may take to connect before another
	// circuit is tried. 0: 10 seconds, and 15 from the third try on.
	StreamTimeout time.Duration `reload:"live"`

	// ClientRejectInternalAddresses refuses requests for addresses and names of
	// this machine or its network: they have another meaning at an exit.
	// ClientDNSRejectInternalAddresses rejects the answer of an exit that a name
	// has such an address; SwitchOff is refused on the public network. SwitchAuto
	// is SwitchOn, and SwitchOff where the network's own relays may have such
	// addresses.
	ClientRejectInternalAddresses    Switch
	ClientDNSRejectInternalAddresses Switch

	// CGO is counter galois onion encryption of relay cells (proposal 359),
	// CongestionControl is proposal 324 and Conflux is proposal 329. SwitchAuto
	// uses each where relays support it, and Conflux only if the consensus allows it. SwitchOn is for tests:
	// the client then builds circuits only of relays that support it. CGO also says
	// whether the two ends of an onion service's connection may use it between them
	// (docs/spec/cgo-onions.md); SwitchOn demands it of relays only.
	CGO               Switch
	CongestionControl Switch
	Conflux           Switch

	// PQ says which hops of each circuit ML-KEM-768 protects, in addition to
	// X25519, against an attacker that records the traffic today and has a
	// quantum computer later. The signed directory says which relays support it.
	// If a protected hop fails, the client does not try it without protection.
	PQ PQPolicy
	// RequireOnionPQ demands ML-KEM-768 between onion services and their clients, through
	// any relays: the client reaches only services that offer it, and a service of this
	// client accepts only clients that use it. PQRequireAll demands it, too, and the same
	// of all relays. With other policies (except PQOff) the client uses it where it can.
	RequireOnionPQ bool

	// Appearance says whom the client should look like to relays. Less than all of what distinguishes it from
	// C tor's depends on it: docs/threat-model.md says what.
	Appearance Appearance

	// Padding is channel padding (padding-spec).
	Padding Padding
	// CircuitPadding makes circuits to introduction and rendezvous points look like
	// other circuits to the guard (padding-spec, "Circuit-level padding"): C tor's
	// CircuitPadding and ReducedCircuitPadding. PaddingReduced leaves the machines that
	// suit metered links, of which there are none today.
	CircuitPadding Padding

	// Vanguards are for circuits to onion services, and for those of services that the
	// client hosts.
	Vanguards Vanguards

	// OnionMaxEffort is the greatest effort of a proof of work that the client makes for an
	// onion service that asks for one: a flooded service serves clients first that have done
	// more work. If a service asks for more, the client does this much. An effort of 100
	// takes about a second of a processor. 0: 10,000, as C tor. -1: no proofs.
	OnionMaxEffort int

	// ClientOnionAuth are keys for onion services that only authorized clients may
	// read of, in C tor's form "ADDRESS:descriptor:x25519:KEY", with the address
	// without ".onion" and the secret key in base32, or "@" and a file with such a line,
	// which is its owner's alone. ClientOnionAuthDir is a directory
	// with such lines in files whose names end in ".auth_private"; nobody but the owner
	// may have access to it. Empty: none. Reload reads the files again.
	ClientOnionAuth    []string
	ClientOnionAuthDir string

	// MaxMemory bounds what relays can make the client hold, in bytes, such as
	// data that no program reads. Above it, the client closes the circuits that
	// hold the most. 0: DefaultMaxMemory; 32 MiB is the least.
	MaxMemory uint64
}

// DefaultMaxMemory bounds what others can make a client or an authority hold, in
// bytes, where MaxMemory is 0, and a relay on a machine whose memory is not known.
const DefaultMaxMemory = 512 << 20

// Check reports the first option that New would refuse. It touches no network, and
// no file but those that ClientOnionAuth, ClientOnionAuthDir and Proxy name and, if a list
// of relays names a country, those that know countries.
func (c *Config) Check() error {
	_, err := c.read()
	return err
}

// choices is what a Config says in texts, in the forms of the internal packages.
type choices struct {
	client.Live
	upstream *upstream.Proxy
	inside   map[string]transport.Client
	outbound struct{ OR, PT, Rest netaddr.Sources }
}

// read checks all fields, and reads those that are texts or name files.
func (c *Config) read() (r choices, err error) {
	if err := options.Client.Check(c); err != nil {
		return r, err
	}
	if c.ClientDNSRejectInternalAddresses == SwitchOff && (c.Network == nil || c.Network.dir.IsPublic()) {
		return r, options.Wrong("ClientDNSRejectInternalAddresses", "off is for networks of one's own, not for the public one")
	}
	if c.RequireOnionPQ && c.PQ == PQOff {
		return r, options.Wrong("RequireOnionPQ", "the option PQ is off")
	}
	role.Take(&r.Live, c)
	if r.upstream, err = c.upstream(); err != nil {
		return r, err
	}
	if err = c.bridges(&r); err != nil {
		return r, err
	}
	if err = c.outbound(&r); err != nil {
		return r, err
	}
	if r.OnionKeys, err = c.onionKeys(); err != nil {
		return r, err
	}
	if r.Map, err = c.addrMap(); err != nil {
		return r, err
	}
	r.Path, err = c.paths(r.upstream)
	known := r.Path.Countries
	r.Countries = &client.Countries{Files: c.countryFiles(), Read: func() (*geoip.Table, error) {
		if known != nil {
			return known, nil
		}
		return c.countries("a connection")
	}}
	return r, err
}

// onionMaxEffort returns the bound on proofs of work; zero: none are made.
func (c *Config) onionMaxEffort() uint32 {
	if c.OnionMaxEffort == 0 {
		return hsclient.DefaultMaxEffort
	}
	return uint32(max(0, c.OnionMaxEffort)) // the table of options bounds it
}

// onionKeys reads the keys for onion services.
func (c *Config) onionKeys() (hsclient.Keys, error) {
	keys := hsclient.Keys{}
	for i, line := range c.ClientOnionAuth {
		add := keys.Add
		if file, ok := strings.CutPrefix(line, "@"); ok {
			add, line = keys.AddFile, file
		}
		if err := add(line); err != nil {
			return nil, options.Wrong("ClientOnionAuth", "number %d: %w", i+1, err)
		}
	}
	if c.ClientOnionAuthDir != "" {
		if err := keys.AddDir(c.ClientOnionAuthDir); err != nil {
			return nil, options.Wrong("ClientOnionAuthDir", "%w", err)
		}
	}
	return keys, nil
}

// bridges reads the bridge lines and the transports; r has the upstream proxy.
func (c *Config) bridges(r *choices) (err error) {
	if len(c.Bridges) > 0 && len(c.EntryNodes) > 0 {
		return options.Wrong("EntryNodes", "bridges are the first hops of every circuit; give one or the other")
	}
	for i, s := range c.Bridges {
		b, err := pt.ParseBridgeLine(s)
		if err != nil {
			return options.Wrong("Bridges", "entry %d: %w", i+1, err)
		}
		r.Bridges = append(r.Bridges, b)
	}
	for i, s := range c.ClientTransportPlugins {
		p, err := pt.ParseTransportLine(s)
		if err != nil {
			return options.Wrong("ClientTransportPlugins", "entry %d: %w", i+1, err)
		}
		r.Transports = append(r.Transports, p)
	}
	if r.inside, err = c.inside(r.Transports); err != nil {
		return err
	}
	if err := client.CheckBridges(r.Bridges, r.Transports, r.inside, r.upstream != nil); err != nil {
		return options.Wrong("Bridges", "%w", err)
	}
	return nil
}

// DefaultDataDir returns the data directory of a Config without one:
// $XDG_STATE_HOME/chive, or .local/state/chive under the user's home.
func DefaultDataDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "chive"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fault.New(fault.Config, "no data directory: set one, or $XDG_STATE_HOME, or a home directory: %w", err)
	}
	return filepath.Join(home, ".local", "state", "chive"), nil
}
