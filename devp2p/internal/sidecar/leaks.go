package sidecar

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"
)

// A Leak is something by which the node shows itself outside Tor.
type Leak struct {
	What string // what it does
	Seen string // by which sockets that was seen; empty: not by sockets
	Fix  string // how the user ends it
}

// view is what the sidecar sees of the node.
type view struct {
	info    *nodeInfo
	peers   []*peerInfo
	proc    *process      // nil: it cannot be seen
	port    int           // where the node takes connections of peers; zero: not known
	watched time.Duration // how long the process was watched
	enough  time.Duration // how long it must be
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

// A rule is a way in which a node leaks.
type rule struct {
	what string
	geth string // how to end it in geth
	fix  string // how to end it in other clients; empty: the rule is about geth's flags alone
	// found returns whether the node leaks, and the sockets by which that was seen.
	found func(v view) (seen []string, leaks bool)
}

// sockets is a rule about what the process has open.
func sockets(what, geth, fix string, kind socketKind) rule {
	return rule{what, geth, fix, func(v view) ([]string, bool) {
		if v.proc == nil {
			return nil, false
		}
		seen := v.proc.of(kind)
		return seen, len(seen) > 0
	}}
}

// fact is a rule without sockets.
func fact(what, geth, fix string, found func(v view) bool) rule {
	return rule{what, geth, fix, func(v view) ([]string, bool) { return nil, found(v) }}
}

// flags is a rule about geth's command line. It is about what geth may do between two looks, since
// a question to a name server or a router is over in some milliseconds.
func flags(what, geth string, found func(p *process) bool) rule {
	return fact(what, geth, "", func(v view) bool { return v.proc != nil && found(v.proc) })
}

// unseen is what is said if nobody can say what the node does.
const unseen = ", so its sockets are not checked"

// leaks are the rules, one a row. What the kernel and the node's JSON-RPC show comes first, and holds for all
// clients. Geth's flags are asked beside that.
var leaks = []rule{
	sockets("its process has UDP sockets outside loopback: by discovery, for example, strangers learn this machine's address",
		"start geth with --nodiscover and --nat none; see what else it does", "turn off its discovery, NAT and DNS", udpSocket),
	sockets("its process listens outside loopback",
		configured+"; keep --http.addr, --ws.addr and --authrpc.addr on loopback", "let all its ports listen at 127.0.0.1 alone", listening),
	sockets("its process has connections outside loopback",
		"see what they are; remove static and trusted nodes with addresses; start geth with --netrestrict 127.0.0.0/8, and without --ethstats",
		"see what they are; let it have no peers by addresses, and no services outside", connection),
	sockets("its process asks a name server of this machine, which asks others",
		"start geth with the flag --nodiscover, and give it addresses in place of names", "turn off its DNS discovery, and give it addresses in place of names", toNameServer),
	sockets("its process has raw sockets", "see what they are", "see what they are", rawSocket),
	fact("its record has an address of this machine", "start geth with --nat none", "turn off its NAT, and give it no external address",
		func(v view) bool {
			n, err := enode.Parse(enode.ValidSchemes, v.info.ENR)
			return err == nil && n.IPAddr().IsValid() && !n.IPAddr().IsLoopback() && !n.IPAddr().IsUnspecified()
		}),
	fact("it has peers that it reaches outside Tor, or that reach it so",
		"remove static and trusted nodes with addresses, and start geth with --netrestrict 127.0.0.0/8", "remove peers with addresses",
		func(v view) bool {
			return slices.ContainsFunc(v.peers, func(p *peerInfo) bool {
				return !ofLoopback(p.Network.RemoteAddress)
			})
		}),
	flags("it can look names up: DNS discovery is not off", "start geth with the flag --nodiscover (a config file is not enough), or with --discovery.dns=\"\"",
		func(p *process) bool {
			if off, set := p.flag("nodiscover"); set && off != "false" {
				return false
			}
			urls, set := p.flag("discovery.dns")
			return !set || urls != ""
		}),
	flags("it may ask the router, or a server, for this machine's address", "start geth with --nat none",
		func(p *process) bool {
			nat, _ := p.flag("nat")
			return nat != "none"
		}),
	flags("it may connect to addresses: nothing restricts it to loopback", "start geth with --netrestrict 127.0.0.0/8",
		func(p *process) bool {
			list, _ := p.flag("netrestrict")
			return !onlyLoopback(list)
		}),
	fact("its process cannot be seen"+unseen, "run the sidecar on Linux as geth's user, outside of other containers",
		"run the sidecar on Linux as the node's user, outside of other containers",
		func(v view) bool { return v.proc == nil }),
	fact("the process that answers does not listen at the port of its peers"+unseen, "run geth without a proxy before its port, or name the port by --p2p-port",
		"run the node without a proxy before its port, or name the port by --p2p-port",
		func(v view) bool { return v.proc != nil && (v.port == 0 || !v.proc.listens[uint16(v.port)]) }),
	{"its flags are not known here, and it was watched for too short a time", "", "wait a minute",
		func(v view) ([]string, bool) {
			return nil, v.proc != nil && !v.info.isGeth() && v.watched < v.enough
		}},
}

// ofLoopback reports whether an address with a port, as clients write it, is of loopback. EthereumJS writes IPv6 without brackets.
func ofLoopback(text string) bool {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return false
	}
	a, err := netip.ParseAddr(strings.Trim(text[:i], "[]"))
	return err == nil && a.Unmap().IsLoopback()
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
		how := l.fix
		if v.info.isGeth() {
			how = l.geth
		}
		if how == "" {
			continue // it is about another client
		}
		if seen, found := l.found(v); found {
			out = append(out, Leak{l.what, strings.Join(seen, ", "), how})
		}
	}
	return out
}

// Text says it all.
func (l Leak) Text() string {
	if l.Seen == "" {
		return l.What + ". " + l.Fix
	}
	return l.What + " (" + l.Seen + "). " + l.Fix
}
