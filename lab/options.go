package lab

import (
	"log/slog"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/relay"
)

// Options describes the network to make. The zero value is a network of three
// authorities, five relays and two exits, all in this process.
type Options struct {
	Authorities int // default 3
	Relays      int // default 5: relays that are not exits; negative: none. The first 100 relays and exits are directory caches.
	Exits       int // default 2; negative: none
	Bridges     int // unlisted relays: Node.Bridge has the lines that clients need
	// VotingInterval is the time between two consensuses: whole seconds, 10 at
	// least, which is the least that C tor accepts of authorities in a network for
	// tests. Default 15 seconds, and ten minutes above 200 nodes. A relay that Add starts is in the consensus
	// after the next round, and clients have that one half an interval later. Each
	// round costs every node some work: where this would disturb, for example in
	// measurements, let the rounds be some minutes apart.
	VotingInterval time.Duration
	// BridgeTransports are the pluggable transports of every bridge, besides its
	// ORPort: "obfs4 exec /usr/bin/obfs4proxy".
	BridgeTransports []string

	// Processes runs every node in its own process, including the client of the
	// SOCKS port. Program is chive's binary. One more client runs in this
	// process, for Network.Client and Network.Fetch.
	Processes bool
	Program   string

	// CtorRelays, CtorExits and CtorClients are how many nodes of stock C tor run in
	// the network too, with the names "relay0", "exit0", "client0" and so on;
	// CtorAuthorities makes the authorities C tor's. Tor is C tor's program; empty:
	// "tor" in PATH (see FindTor). CtorTorrc has further lines of the torrc of each
	// node of C tor.
	CtorAuthorities bool
	CtorRelays      int
	CtorExits       int
	CtorClients     int
	CtorTorrc       []string
	Tor             string

	// Host, if not nil, gives each node of Chive a network of its own instead of the kernel's, such as a host behind
	// an emulated link. It is asked once for each node, by its name; the client of Start is called "client". What
	// it returned must work until Close has returned. What leaves an exit does not go this way: the target is on
	// loopback. It cannot be used with Processes, with nodes of C tor, or with BridgeTransports. A network of more
	// than 200 nodes that has no Host is in memory: no other program reaches its nodes, but for the SOCKS port.
	Host func(name string) (Host, error)

	// Dir is the directory of the nodes' files; empty: a temporary directory,
	// which Close removes.
	Dir string
	// SOCKS is the address of the client's SOCKS port; empty: a free port of
	// loopback.
	SOCKS string
	// Client is the configuration of this process's client; the lab sets its
	// network, directory and log.
	Client chive.Config
	// Relay, if not nil, may change the configuration of each relay. It cannot be
	// used with Processes.
	Relay func(name string, cfg *relay.Config)
	// Log receives the logs of the nodes, each with the node's name; nil: no log.
	Log *slog.Logger
	// Progress is called after each stage of Start; may be nil.
	Progress func(Stage)
}

// defaultInterval is the shortest round number of seconds of which 24, C tor's
// time period of onion services in a network for tests, are whole minutes and not
// fewer than the consensus can tell Arti (hsdir_interval).
const defaultInterval = 15 * time.Second

// largeInterval is the default of networks above maxInKernel. Each round gives each node another consensus: every
// 15 seconds, that takes a core of 1,003 nodes, and more memory with each.
const largeInterval = 10 * time.Minute

// maxNodes bounds a network, by what was started: docs/lab.md has figures.
const maxNodes = 1100

// nodes is how many nodes Start makes.
func (o *Options) nodes() int {
	return o.Authorities + o.Relays + o.Exits + o.Bridges + o.CtorRelays + o.CtorExits + o.CtorClients
}

// maxCaches is how many relays of a network have a directory cache, and so can be guards. Each cache of a network holds the consensuses, and
// finds a descriptor of each relay: memory and work that grow with the square of the network's size.
const maxCaches = 100

// large reports whether some relays have no directory cache. Then the first round takes longer, too, and relays share documents.
func (o *Options) large() bool { return o.Relays+o.Exits > maxCaches }

// maxAuthorities is how many authorities a network file may name.
const maxAuthorities = 64

// check sets the defaults and reports the first mistake.
func (o *Options) check() error {
	for _, d := range []struct {
		n   *int
		def int
	}{{&o.Authorities, 3}, {&o.Relays, 5}, {&o.Exits, 2}} {
		if *d.n == 0 {
			*d.n = d.def
		}
		*d.n = max(*d.n, 0)
	}
	if o.VotingInterval == 0 {
		o.VotingInterval = defaultInterval
		if o.nodes() > maxInKernel {
			o.VotingInterval = largeInterval
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(Stage) {}
	}
	if o.SOCKS == "" {
		o.SOCKS = "127.0.0.1:0"
	}
	switch n := o.nodes(); {
	case o.Bridges < 0 || o.CtorRelays < 0 || o.CtorExits < 0 || o.CtorClients < 0:
		return fault.New(fault.Config, "lab: a negative number of nodes")
	case n > maxNodes:
		return fault.New(fault.Config, "lab: %d nodes are more than %d", n, maxNodes)
	case n > maxInKernel && (o.Processes || o.CtorAuthorities || o.CtorRelays+o.CtorExits+o.CtorClients > 0 || len(o.BridgeTransports) > 0):
		return fault.New(fault.Config, "lab: %d nodes are more than %d: then they speak through memory, as processes, nodes of C tor and transports cannot", n, maxInKernel)
	case o.Authorities < 1:
		return fault.New(fault.Config, "lab: a network needs an authority")
	case o.Authorities > maxAuthorities:
		return fault.New(fault.Config, "lab: %d authorities are more than %d", o.Authorities, maxAuthorities)
	case o.Exits+o.CtorExits < 1:
		return fault.New(fault.Config, "lab: a network that is to carry traffic needs an exit")
	case o.hops() < 3:
		return fault.New(fault.Config, "lab: a path has three relays, and there are %d", o.hops())
	case len(o.BridgeTransports) > 0 && o.Bridges == 0:
		return fault.New(fault.Config, "lab: transports are for bridges, and there is none")
	case o.Processes && o.Program == "":
		return fault.New(fault.Config, "lab: a process for each node needs the program to run")
	case o.VotingInterval < options.MinVotingInterval || o.VotingInterval%time.Second != 0 || o.VotingInterval > options.MaxVotingInterval:
		return fault.New(fault.Config, "lab: voting interval %v: whole seconds, from %v to a day", o.VotingInterval, options.MinVotingInterval)
	case o.Host != nil && (o.Processes || o.CtorAuthorities || o.CtorRelays+o.CtorExits+o.CtorClients > 0):
		return fault.New(fault.Config, "lab: processes use the kernel's network: they can have no other host")
	case o.Host != nil && len(o.BridgeTransports) > 0:
		return fault.New(fault.Config, "lab: transports use the kernel's network: their bridges can have no other host")
	case o.Processes && o.Relay != nil:
		return fault.New(fault.Config, "lab: relays in processes of their own cannot be changed by a function")
	}
	if o.Host == nil && o.nodes() > maxInKernel {
		o.Host = new(memory).Host
	}
	return nil
}

// hops is how many nodes can be in a path of a client without bridges.
func (o *Options) hops() int {
	n := o.Relays + o.Exits + o.CtorRelays + o.CtorExits
	if o.CtorAuthorities { // which are relays, too
		n += o.Authorities
	}
	return n
}
