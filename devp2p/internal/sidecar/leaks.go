package sidecar

import (
	"net/netip"
	"strings"

	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
)

// A Leak is something by which the node shows itself outside Tor.
type Leak struct {
	What string // what it does
	Fix  string // how the user ends it
}

// view is what the sidecar sees of the node.
type view struct {
	info  *p2p.NodeInfo
	peers []*p2p.PeerInfo
	proc  *process // nil: it cannot be seen
}

// process is what the operating system says of the node's process.
type process struct {
	args []string // its command line
	// Its sockets that are not bound to loopback, or not connected to it.
	udp, listen, connected int
}

// flag reports whether a flag of the command line is set, and its value. geth takes
// --name and -name, with "=value" or with the value as the next argument.
func (p *process) flag(name string) (value string, set bool) {
	for i, a := range p.args {
		if !strings.HasPrefix(a, "-") {
			continue
		}
		got, v, eq := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if got != name {
			continue
		}
		if !eq && i+1 < len(p.args) {
			v = p.args[i+1]
		}
		value, set = v, true
	}
	return value, set
}

// configured says how to change what no flag of geth changes.
const configured = `start geth with --config and a file that has: [Node.P2P] ListenAddr = "127.0.0.1:30303"; and without --port`

// leaks are the rules, one a row. Each returns whether the node leaks.
var leaks = []struct {
	Leak
	found func(v view) bool
}{
	{Leak{"discovery is on: it sends UDP packets to strangers, and they learn this machine's address", "start geth with --nodiscover"},
		func(v view) bool { return v.info.Ports.Discovery != 0 }},
	{Leak{"its port is open outside loopback", configured},
		func(v view) bool {
			host, err := netip.ParseAddrPort(v.info.ListenAddr)
			return err != nil || !host.Addr().IsLoopback()
		}},
	{Leak{"its record has an address of this machine", "start geth with --nat none"},
		func(v view) bool {
			n, err := enode.Parse(enode.ValidSchemes, v.info.ENR)
			return err == nil && n.IPAddr().IsValid() && !n.IPAddr().IsLoopback() && !n.IPAddr().IsUnspecified()
		}},
	{Leak{"it has peers that it reaches outside Tor, or that reach it so", "remove static and trusted nodes with addresses, and start geth with --netrestrict 127.0.0.0/8"},
		func(v view) bool {
			for _, p := range v.peers {
				if a, err := netip.ParseAddrPort(p.Network.RemoteAddress); err != nil || !a.Addr().Unmap().IsLoopback() {
					return true
				}
			}
			return false
		}},
	{Leak{"it can look names up: DNS discovery is not off", "start geth with the flag --nodiscover (a config file is not enough), or with --discovery.dns=\"\""},
		func(v view) bool {
			if v.proc == nil {
				return false
			}
			if off, set := v.proc.flag("nodiscover"); set && off != "false" {
				return false
			}
			urls, set := v.proc.flag("discovery.dns")
			return !set || urls != ""
		}},
	{Leak{"it may ask the router, or a server, for this machine's address", "start geth with --nat none"},
		func(v view) bool {
			if v.proc == nil {
				return false
			}
			nat, _ := v.proc.flag("nat")
			return nat != "none"
		}},
	{Leak{"it may connect to addresses: nothing restricts it to loopback", "start geth with --netrestrict 127.0.0.0/8"},
		func(v view) bool {
			if v.proc == nil {
				return false
			}
			list, _ := v.proc.flag("netrestrict")
			return !onlyLoopback(list)
		}},
	{Leak{"its process has UDP sockets outside loopback", "start geth with --nodiscover and --nat none; see what else it does"},
		func(v view) bool { return v.proc != nil && v.proc.udp > 0 }},
	{Leak{"its process listens outside loopback", configured + "; keep --http.addr, --ws.addr and --authrpc.addr on loopback"},
		func(v view) bool { return v.proc != nil && v.proc.listen > 0 }},
	{Leak{"its process has connections outside loopback", "see what they are; start geth with --netrestrict 127.0.0.0/8, and without --ethstats"},
		func(v view) bool { return v.proc != nil && v.proc.connected > 0 }},
	{Leak{"its process cannot be seen, so DNS, NAT and other connections are not checked", "run the sidecar on Linux as geth's user, outside of other containers"},
		func(v view) bool { return v.proc == nil }},
}

// onlyLoopback reports whether a list of networks, as --netrestrict takes it, has
// networks of loopback and nothing else.
func onlyLoopback(list string) bool {
	some := false
	for p := range strings.SplitSeq(list, ",") {
		if p = strings.TrimSpace(p); p == "" {
			continue
		}
		n, err := netip.ParsePrefix(p)
		if err != nil || !n.Addr().IsLoopback() || n.Addr().Is4() && n.Bits() < 8 || n.Addr().Is6() && n.Bits() < 128 {
			return false
		}
		some = true
	}
	return some
}

// look returns what leaks.
func look(v view) []Leak {
	var out []Leak
	for _, l := range leaks {
		if l.found(v) {
			out = append(out, l.Leak)
		}
	}
	return out
}
