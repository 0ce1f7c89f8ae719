package wan

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
)

// Ports of the emulated hosts, which have nothing else.
const (
	orPort  = 9001
	dirPort = 9030
	webPort = 8080
)

// Addresses: each host is in a /16 of its own, as relays on one path must be.
var (
	authorityAddr = netip.AddrFrom4([4]byte{10, 1, 0, 1})
	targetAddr    = netip.AddrFrom4([4]byte{10, 2, 0, 1})
)

func relayAddr(i int) netip.Addr  { return netip.AddrFrom4([4]byte{10, byte(10 + i), 0, 1}) }
func clientAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(130 + i), 0, 1}) }

// torCommon are the lines that every node of C tor has. GeoIP costs time and memory, and knows nothing of these hosts.
func (n *network) torCommon(dir, name string) []string {
	return []string{
		"TestingTorNetwork 1", "DirAuthority " + n.authorityLine, "DataDirectory " + dir, "Nickname " + name,
		"Log notice stdout", "SafeLogging 0", "GeoIPFile /dev/null", "GeoIPv6File /dev/null", "EnforceDistinctSubnets 0",
		"PathsNeededToBuildCircuits 0.67",
	}
}

// torRelay is the configuration of a relay of C tor. It builds no circuits of its own.
func (n *network) torRelay(dir string, i int, r Relay) []string {
	out := append(n.torCommon(dir, r.Name), "SocksPort 0", fmt.Sprint("Address ", relayAddr(i)),
		fmt.Sprintf("ORPort %v IPv4Only", netip.AddrPortFrom(relayAddr(i), orPort)), "AssumeReachable 1", "ContactInfo emulated",
		"__DisablePredictedCircuits 1", "UseEntryGuards 0", "ServerDNSDetectHijacking 0", "ServerDNSTestAddresses", "ServerDNSAllowBrokenConfig 1")
	if r.Exit {
		return append(out, "ExitRelay 1", "ExitPolicy accept *:*", "ExitPolicyRejectPrivate 0", "ExitPolicyRejectLocalInterfaces 0")
	}
	return append(out, "ExitRelay 0", "ExitPolicy reject *:*")
}

// torClient is the configuration of a client of C tor with one path.
func (n *network) torClient(dir string, c Client) []string {
	path := n.pathOf(c)
	return append(n.torCommon(dir, c.Name), "SocksPort "+proxyAt, "UseEntryGuards 1", "StrictNodes 1", "ConfluxEnabled 0", "MaxCircuitDirtiness 1 hour",
		"EntryNodes $"+path[0], "MiddleNodes $"+path[1], "ExitNodes $"+path[2])
}

// torCommand runs C tor with a configuration that is in a file.
func (n *network) torCommand(file string) []string {
	return []string{n.run.Tor, "--defaults-torrc", "/nonexistent", "-f", file, "--hush"}
}

// chiveRelay is the command of a relay of Chive's.
func (n *network) chiveRelay(dir string, i int, r Relay) []string {
	out := []string{n.run.Chive, "relay", "--config", n.empty, "--network", n.file, "--data-dir", dir, "--nickname", r.Name, "--contact", "emulated",
		"--orport", netip.AddrPortFrom(relayAddr(i), orPort).String(), "--assume-reachable", "--shutdown-wait", "-1s"}
	if r.Exit {
		out = append(out, "--exit-policy", "accept *:*", "--exit-private", "--nameserver", netip.AddrPortFrom(targetAddr, 53).String())
	}
	return out
}

// chiveClient is the command of a client of Chive's with one path.
func (n *network) chiveClient(dir string, c Client) []string {
	path := n.pathOf(c)
	return []string{n.run.Chive, "proxy", "--config", n.empty, "--network", n.file, "--data-dir", dir, "--socks", proxyAt,
		"--strict-nodes", "--conflux", "off", "--max-circuit-dirtiness", "1h",
		"--entry-nodes", path[0], "--middle-nodes", path[1], "--exit-nodes", path[2]}
}

// pathOf returns the fingerprints of a client's relays.
func (n *network) pathOf(c Client) (out [3]string) {
	for k, i := range c.Path {
		out[k] = n.fingerprints[n.layout.Relays[i].Name]
	}
	return out
}

// dirOf is where a node keeps its files.
func (n *network) dirOf(name string) string { return filepath.Join(n.dir, name) }

func lines(l []string) []byte { return []byte(strings.Join(l, "\n") + "\n") }
