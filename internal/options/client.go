package options

import (
	"fmt"
	"time"

	"github.com/chivenet/chive/internal/account"
)

// maxMemory is the row of the bound on a node's memory; node names the node in
// the help text, and zero says what it is by default.
func maxMemory(node, zero string) Option {
	return Option{Key: "max-memory", Field: "MaxMemory", Bounds: Bounds{account.LeastMemory, noLimit}, Zero: zero,
		Help: "`BYTES` that others can make the " + node + " hold; above that, it closes the peers that hold the most"}
}

// fixedMemory is the default of a node that is not the machine's only purpose.
var fixedMemory = fmt.Sprintf("%d MiB", account.DefaultMaxMemory>>20)

// between are the bounds of a time.
func between(lo, hi time.Duration) Bounds { return Bounds{int64(lo), int64(hi)} }

// The names of the types of Config, as OneOf wants them.
var (
	switches  = []string{"auto", "on", "off"}
	paddings  = []string{"auto", "reduced", "off"}
	pqs       = []string{"off", "prefer", "require-one", "require-all"}
	vanguards = []string{"auto", "lite", "full", "off"}

	appearances = []string{"common", "fast"}
)

// Client is the options of a client: the fields of chive.Config.
var Client = Table{
	{"Files", []Option{
		{Key: "data-dir", Field: "DataDir", Zero: "$XDG_STATE_HOME/chive", Help: "`DIR` for the guards and the directory cache; one client at a time uses it"},
	}},
	{"Choice of relays", []Option{
		{Key: "entry-nodes", Field: "EntryNodes", Help: "`RELAYS` wanted as guards, the first hop: fingerprints, nicknames, addresses, networks or countries such as {de}"},
		{Key: "middle-nodes", Field: "MiddleNodes", Help: "`RELAYS` wanted as middles"},
		{Key: "exit-nodes", Field: "ExitNodes", Help: "`RELAYS` wanted as exits, the last hop"},
		{Key: "exclude-nodes", Field: "ExcludeNodes", Help: "`RELAYS` that are never used"},
		{Key: "exclude-exit-nodes", Field: "ExcludeExitNodes", Help: "`RELAYS` that are never used as exits"},
		{Key: "node-family", Field: "NodeFamilies", Lines: true, Help: "`RELAYS`, with commas between them, that are one family although they do not say so: no circuit uses two of them, except those for onion services while there are vanguards"},
		{Key: "strict-nodes", Field: "StrictNodes", Help: "fail when no wanted relay can be used; without it, others are used then"},
		{Key: "geoip-file", Field: "GeoIPFile", Zero: "/usr/share/tor/geoip", Help: "`FILE` that knows the countries of IPv4 addresses, of C tor's form or a MaxMind database; it is read if a list of relays names a country"},
		{Key: "geoip6-file", Field: "GeoIPv6File", Zero: "geoip-file, if it is a MaxMind database that has them; else /usr/share/tor/geoip6, if it is there", Help: "`FILE` that knows the countries of IPv6 addresses, of either form"},
		{Key: "geoip-exclude-unknown", Field: "GeoIPExcludeUnknown", OneOf: switches, Help: "exclude relays whose country nobody knows: `MODE` auto (where exclude-nodes or exclude-exit-nodes names a country), on or off"},
		{Key: "num-entry-guards", Field: "NumEntryGuards", Bounds: Bounds{0, 20}, Zero: "as the consensus says", Help: "`NUMBER` of guards for traffic"},
		{Key: "num-directory-guards", Field: "NumDirectoryGuards", Bounds: Bounds{0, 20}, Zero: "as the consensus says", Help: "`NUMBER` of guards for directory requests"},
	}},
	{"Connection to the network", []Option{
		{Key: "proxy", Field: "Proxy", Help: "`URL` of a proxy by which all relays and bridges are reached: socks5://USER:PASSWORD@IP:PORT, socks4://... or http://...; better @FILE with such a line, because other users can see command lines"},
		outboundBind("outbound-bind-address", "OutboundBindAddress", "the system's choice", "connections to relays, bridges, the proxy and an onion service's targets come from"),
		outboundBind("outbound-bind-address-or", "OutboundBindAddressOR", asOutbound, "connections to relays, bridges and the proxy come from"),
		outboundBind("outbound-bind-address-pt", "OutboundBindAddressPT", asOutbound, "pluggable transports are asked to connect from"),
		{Key: "reachable-addresses", Field: "ReachableAddresses", Zero: "all", Help: "`RULES` of the addresses that a firewall lets through, such as '*:80,*:443' or '*4:*' for IPv4 only"},
		{Key: "map-address", Field: "MapAddress", Lines: true, Help: "`RULE` by which one host stands for another: 'FROM TO', a name, an address or *.NAME each"},
	}},
	{"Bridges", []Option{
		{Key: "bridge", Field: "Bridges", Lines: true, Help: "`LINE` of a bridge, which is then the first hop: [transport] IP:PORT [FINGERPRINT] [KEY=VALUE ...]"},
		{Key: "transport-plugin", Field: "ClientTransportPlugins", Lines: true, Help: "`LINE` of the program that a bridge's transport needs: 'obfs4 exec /usr/bin/obfs4proxy', or 'obfs4 socks5 IP:PORT' (or socks4) for one that runs already; chive and fte need none"},
	}},
	{"Isolation", []Option{
		{Key: "isolate-dest-addr", Field: "IsolateDestAddr", Help: "keep streams to different hosts on different circuits"},
		{Key: "isolate-dest-port", Field: "IsolateDestPort", Help: "keep streams to different ports on different circuits"},
	}},
	{"Circuits and streams", []Option{
		{Key: "max-circuit-dirtiness", Field: "MaxCircuitDirtiness", Bounds: between(10*time.Second, 30*24*time.Hour), Zero: "10m", Help: "`TIME` that a circuit takes new streams after its first"},
		{Key: "max-client-circuits-pending", Field: "MaxClientCircuitsPending", Bounds: Bounds{1, 1024}, Zero: "32", Help: "`NUMBER` of circuits for streams, and ahead of them, that are being built at a time; more wait"},
		{Key: "circuit-build-timeout", Field: "CircuitBuildTimeout", Bounds: between(time.Second, 5*time.Minute), Zero: "learned from the circuits that were built", Help: "`TIME` that a circuit may take to build"},
		{Key: "stream-timeout", Field: "StreamTimeout", Bounds: between(time.Second, 5*time.Minute), Zero: "10s, and 15s from the third try on", Help: "`TIME` that an exit may take to connect before another one is tried"},
		{Key: "client-reject-internal-addresses", Field: "ClientRejectInternalAddresses", OneOf: switches, Help: "refuse requests for private addresses and local names: `MODE` auto (on, except in private networks), on or off"},
		{Key: "client-dns-reject-internal-addresses", Field: "ClientDNSRejectInternalAddresses", OneOf: switches, Help: "do not believe an exit that says that a name has a private address: `MODE` auto (on, except in private networks), on or off"},
	}},
	{"Onion services", []Option{
		{Key: "client-onion-auth", Field: "ClientOnionAuth", Lines: true, Help: "`LINE` with a key for a service that only authorized clients reach: ADDRESS:descriptor:x25519:KEY, without .onion, the secret key in base32; better @FILE with such a line, because other users can see command lines"},
		{Key: "vanguards", Field: "Vanguards", OneOf: vanguards, Help: "relays after the guard that stay the same for a while on circuits for onion services: `MODE` auto (lite, unless the consensus says otherwise), lite (second hops, for days), full (also third hops, for hours, and longer circuits; both are saved) or off"},
		{Key: "onion-max-effort", Field: "OnionMaxEffort", Bounds: Bounds{-1, 1_000_000}, Zero: "10,000", Help: "greatest `EFFORT` of proofs of work for services that ask for them during a flood; 100 take about a second of a processor; -1: no proofs"},
		{Key: "client-onion-auth-dir", Field: "ClientOnionAuthDir", Help: "`DIR` with such lines in files whose names end in .auth_private; only the owner may have access to it"},
	}},
	{"Protocol", []Option{
		{Key: "cgo", Field: "CGO", OneOf: switches, Help: "counter galois onion, the newer encryption of cells: `MODE` auto, on or off"},
		{Key: "congestion-control", Field: "CongestionControl", OneOf: switches, Help: "congestion control: `MODE` auto, on or off"},
		{Key: "conflux", Field: "Conflux", OneOf: switches, Help: "traffic over two circuits at once: `MODE` auto, on or off"},
		{Key: "pq", Field: "PQ", OneOf: pqs, Help: "post-quantum circuits: `POLICY` off, prefer, require-one (one hop at least) or require-all (every hop, also that between an onion service and its client)"},
		{Key: "require-onion-pq", Field: "RequireOnionPQ", Help: "refuse connections between onion services and their clients that ML-KEM does not protect; any relays may carry them"},
		{Key: "appearance", Field: "Appearance", OneOf: appearances, Help: "whom the client and its onion services should look like to relays: `LOOK` common (C tor's clients, which builds circuits by C tor's clock, and makes nothing ahead for the next onion service) or fast (where Chive is quicker or handier, it shows)"},
		{Key: "circuit-padding", Field: "CircuitPadding", OneOf: paddings, Help: "padding on circuits to introduction and rendezvous points of onion services, which hides from the guard what they are: `MODE` auto, reduced or off"},
		{Key: "padding", Field: "Padding", OneOf: paddings, Help: "padding on the link to the guard: `MODE` auto, reduced or off"},
	}},
	{"Limits", []Option{maxMemory("client", fixedMemory)}},
}
