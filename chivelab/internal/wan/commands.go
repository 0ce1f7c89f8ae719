package wan

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/netdir"
)

// Ports of the emulated hosts, which have nothing else.
const (
	orPort  = 9001
	dirPort = 9030
	webPort = 8080
)

// Times of the authority's votes. The first round is held when all relays have come; the next ones are far away, as they
// cost time.
const (
	firstRound = time.Second
	laterRound = 30 * time.Minute
	roundDelay = 2 * time.Second
)

// Addresses: each host is in a /16 of its own, as relays on one path must be.
var (
	authorityAddr = netip.AddrFrom4([4]byte{10, 1, 0, 1})
	targetAddr    = netip.AddrFrom4([4]byte{10, 2, 0, 1})
)

func relayAddr(i int) netip.Addr  { return netip.AddrFrom4([4]byte{10, byte(10 + i), 0, 1}) }
func clientAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(130 + i), 0, 1}) }

// nodes is what the commands and configurations of a network's nodes are made of.
type nodes struct {
	layout *Layout
	chive  string // the programs
	tor    string
	file   string   // describes the network to Chive's nodes
	empty  string   // a file of settings without any, instead of the user's
	more   []string // lines that all nodes of C tor have beside

	authorityLine string
	fingerprints  map[string]string // by name
}

// takeAuthority notes who the authority is, and returns what describes the network to Chive's nodes.
func (n *nodes) takeAuthority(a netdir.Authority) *netdir.Network {
	n.authorityLine = fmt.Sprintf("%s orport=%d no-v2 v3ident=%s %s %s", a.Nickname, orPort, a.V3Ident, a.DirPort, a.RSA)
	return &netdir.Network{Name: "wan", Authorities: []netdir.Authority{a}, Testing: netdir.Testing{AllowPrivateAddresses: true, VotingInterval: laterRound}}
}

// torCommon are the lines that every node of C tor has. GeoIP costs time and memory, and knows nothing of these hosts.
func (n *nodes) torCommon(dir, name string) []string {
	return append([]string{
		"TestingTorNetwork 1", "DirAuthority " + n.authorityLine, "DataDirectory " + dir, "Nickname " + name,
		"Log notice stdout", "SafeLogging 0", "GeoIPFile /dev/null", "GeoIPv6File /dev/null", "EnforceDistinctSubnets 0",
		"PathsNeededToBuildCircuits 0.67",
	}, n.more...)
}

// torRelay is the configuration of a relay of C tor. It builds no circuits of its own.
func (n *nodes) torRelay(dir string, i int, r Relay) []string {
	out := append(n.torCommon(dir, r.Name), "SocksPort 0", fmt.Sprint("Address ", relayAddr(i)),
		fmt.Sprintf("ORPort %v IPv4Only", netip.AddrPortFrom(relayAddr(i), orPort)), "AssumeReachable 1", "ContactInfo emulated",
		"__DisablePredictedCircuits 1", "UseEntryGuards 0", "ServerDNSDetectHijacking 0", "ServerDNSTestAddresses", "ServerDNSAllowBrokenConfig 1")
	if r.Exit {
		return append(out, "ExitRelay 1", "ExitPolicy accept *:*", "ExitPolicyRejectPrivate 0", "ExitPolicyRejectLocalInterfaces 0")
	}
	return append(out, "ExitRelay 0", "ExitPolicy reject *:*")
}

// torClient is the configuration of a client of C tor with one path.
func (n *nodes) torClient(dir string, c Client) []string {
	path := n.pathOf(c)
	return append(n.torCommon(dir, c.Name), "SocksPort "+proxyAt, "UseEntryGuards 1", "StrictNodes 1", "ConfluxEnabled 0", "MaxCircuitDirtiness 1 hour",
		"EntryNodes $"+path[0], "MiddleNodes $"+path[1], "ExitNodes $"+path[2])
}

// torCommand runs C tor with a configuration that is in a file.
func (n *nodes) torCommand(file string) []string {
	return []string{n.tor, "--defaults-torrc", "/nonexistent", "-f", file, "--hush"}
}

// chiveRelay is the command of a relay of Chive's.
func (n *nodes) chiveRelay(dir string, i int, r Relay) []string {
	out := []string{n.chive, "relay", "--config", n.empty, "--network", n.file, "--data-dir", dir, "--nickname", r.Name, "--contact", "emulated",
		"--orport", netip.AddrPortFrom(relayAddr(i), orPort).String(), "--assume-reachable", "--shutdown-wait", "-1s"}
	if r.Exit {
		out = append(out, "--exit-policy", "accept *:*", "--exit-private", "--nameserver", netip.AddrPortFrom(targetAddr, 53).String())
	}
	return out
}

// chiveClient is the command of a client of Chive's with one path.
func (n *nodes) chiveClient(dir string, c Client) []string {
	path := n.pathOf(c)
	return []string{n.chive, "proxy", "--config", n.empty, "--network", n.file, "--data-dir", dir, "--socks", proxyAt,
		"--strict-nodes", "--conflux", "off", "--max-circuit-dirtiness", "1h",
		"--entry-nodes", path[0], "--middle-nodes", path[1], "--exit-nodes", path[2]}
}

// pathOf returns the fingerprints of a client's relays.
func (n *nodes) pathOf(c Client) (out [3]string) {
	for k, i := range c.Path {
		out[k] = n.fingerprints[n.layout.Relays[i].Name]
	}
	return out
}

func lines(l []string) []byte { return []byte(strings.Join(l, "\n") + "\n") }
