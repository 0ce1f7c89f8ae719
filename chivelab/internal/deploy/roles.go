package deploy

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"strconv"
	"strings"

	"github.com/chivenet/chive/authority"
	"github.com/chivenet/chive/internal/fault"
)

// Ports of the machines.
const (
	orPort      = 9001
	dirPort     = 9030
	metricsPort = 9035
	echoPort    = 7007
)

// Names of files in a machine's directory.
const (
	networkName = "network.toml"
	outputName  = "output" // what the role's program prints
	stateName   = "state"  // of the role's program
	resultsName = "results"
)

// Names of what a run finds, in a directory.
const (
	ReportName  = "report.json"
	SamplesName = "samples.csv"
	MetricsName = "metrics.csv"
)

// Command returns the arguments with which this program plays a node's role. dir is the machine's directory.
func (inv *Inventory) Command(n *Node, dir string) []string {
	return inv.commandWith(n, dir, path.Join(dir, networkName))
}

// commandWith is Command with the network's file at another place.
func (inv *Inventory) commandWith(n *Node, dir, network string) []string {
	at := func(port uint16) string { return netip.AddrPortFrom(n.Address, port).String() }
	own, results := path.Join(dir, stateName), path.Join(dir, resultsName)
	switch n.Role {
	case Directory:
		return []string{"authority", "--network", network, "--data-dir", own, "--nickname", nickname(n), "--contact", "lab",
			"--orport", at(orPort), "--dirport", at(dirPort), "--metrics", at(metricsPort), "--testing", "--assume-reachable", "--wait-for-relays=3",
			"--initial-voting-interval=2s", "--initial-vote-delay=500ms", "--initial-dist-delay=500ms",
			"--voting-interval=20m", "--vote-delay=5s", "--dist-delay=5s", "--intervals-valid=12"}
	case Guard, Middle, Exit:
		args := []string{"relay", "--network", network, "--data-dir", own, "--nickname", nickname(n), "--contact", "lab",
			"--orport", at(orPort), "--metrics", at(metricsPort), "--assume-reachable", "--shutdown-wait", "-1s"}
		if n.Role == Exit {
			to := netip.AddrPortFrom(inv.Node(Target).Address, echoPort)
			args = append(args, "--exit-private", "--exit-policy", "accept "+to.String()+",reject *:*")
		}
		return args
	case Target:
		return []string{"deploy", "node", "target", "--listen", at(echoPort), "--metrics", at(metricsPort)}
	case Monitor:
		args := []string{"deploy", "node", "monitor", "--every", strconv.Itoa(inv.Every) + "s", "--out", results}
		for i := range inv.Nodes {
			if o := &inv.Nodes[i]; o.Role != Monitor {
				args = append(args, fmt.Sprintf("--of=%s=%v", o.Name, netip.AddrPortFrom(o.Address, metricsPort)))
			}
		}
		return args
	}
	return []string{"deploy", "node", "client", "--network", network, "--metrics", at(metricsPort), "--out", results,
		"--path", strings.Join([]string{nickname(inv.Node(Guard)), nickname(inv.Node(Middle)), nickname(inv.Node(Exit))}, ","),
		"--target", netip.AddrPortFrom(inv.Node(Target).Address, echoPort).String(),
		"--circuits", strconv.Itoa(inv.Circuits), "--seed", strconv.FormatUint(inv.Seed, 10), "--handshakes", strings.Join(inv.Handshakes, ",")}
}

// listens are the addresses at which a node listens.
func (inv *Inventory) listens(n *Node) (out []netip.AddrPort) {
	ports := map[Role][]uint16{
		Directory: {orPort, dirPort, metricsPort}, Guard: {orPort, metricsPort}, Middle: {orPort, metricsPort}, Exit: {orPort, metricsPort},
		Target: {echoPort, metricsPort}, Client: {metricsPort},
	}
	for _, p := range ports[n.Role] {
		out = append(out, netip.AddrPortFrom(n.Address, p))
	}
	return out
}

// keysCommand returns the arguments with which this program makes the directory's keys, and prints the network's file.
func (inv *Inventory) keysCommand(dir string) []string {
	n := inv.Node(Directory)
	return []string{"deploy", "node", "keys", "--dir", path.Join(dir, stateName, "keys"), "--name", inv.Name, "--nickname", nickname(n), "--address", n.Address.String()}
}

// nickname is how a relay calls itself: those have letters and digits only, 19 at most.
func nickname(n *Node) string { return "deploy" + string(n.Role) }

// MakeKeys makes the keys of the directory, if they are not there, and returns the network's file.
func MakeKeys(dir, name, nick string, addr netip.Addr) ([]byte, error) {
	or, dp := netip.AddrPortFrom(addr, orPort), netip.AddrPortFrom(addr, dirPort)
	k, err := authority.LoadKeys(dir)
	if errors.Is(err, fs.ErrNotExist) {
		k, err = authority.MakeKeys(dir, dp.String(), 12, nil)
	}
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "the directory's keys: %w", err)
	}
	return fmt.Appendf(nil, `name = %q

[[authority]]
nickname = %q
v3ident = %q
rsa = %q
ed25519 = %q
orport = [%q]
dirport = %q

[testing]
allow_private_addresses = true
enforce_distinct_subnets = false
voting_interval = "20m"
`, name, nick, k.V3Ident, k.RSA, k.Ed25519, or.String(), dp.String()), nil
}
