package chive

import (
	"cmp"
	"slices"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsservice"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/role"
)

// OnionConfig is the configuration of an onion service. The zero OnionConfig is a
// service with a new key, which ends with its listener, and with all ports.
// OnionListener.Reload can change the fields with the tag reload:"live".
type OnionConfig struct {
	// Name names the service in the log, which never has its address. Empty: no name.
	Name string
	// KeyDir is the directory of the service's key: C tor's HiddenServiceDir. It is
	// made, with a new key, if it is missing, and no other program can use it at the same
	// time. A file in its folder authorized_clients whose name ends in ".auth" authorizes a
	// client; without such files everybody who knows the address may connect. Empty: Key
	// counts.
	KeyDir string
	// Key is the service's secret key. Zero: a new one.
	Key OnionKey
	// AuthorizedClients are clients besides those of KeyDir. If there are any, nobody else may connect.
	AuthorizedClients []OnionClient `reload:"live"`

	// Ports are the virtual ports whose connections Accept returns. Nil: all that
	// Targets does not have.
	Ports []int
	// Targets says where connections to other virtual ports go: an IP address with a
	// port, such as "127.0.0.1:8080", or "unix:" and the path of a socket.
	Targets map[int]string `reload:"live"`
	// MoreTargets are further targets of ports that Targets has. Each connection goes to one
	// of a port's targets, at random, and nowhere else if that one cannot be connected to. One
	// that is there twice gets twice as many connections.
	MoreTargets map[int][]string `reload:"live"`
	// ExportCircuitID "haproxy" sends to a target, before a client's bytes, a line of
	// HAProxy's PROXY protocol, version 1, as C tor's HiddenServiceExportCircuitID does:
	// in place of a client's address it has OnionConn.CircuitAddr. Empty: no such line.
	ExportCircuitID string `reload:"live"`

	// Masters are addresses of services of which this one is a backend: OnionBalance, or
	// another frontend, names this service's introduction points in their descriptors.
	// They are besides those in the file ob_config of KeyDir, which is C tor's.
	Masters []string

	// Backends make this service a frontend: its descriptors name the introduction points
	// of the services with these addresses, so that its clients meet them. Each backend must have
	// this service among its Masters. A frontend has no Ports, Targets or connections.
	Backends []string
	// Fleet says that other hosts may serve the same address at the same time. They have
	// the same key, and Fleet is true there, too. Each host has introduction points of its
	// own, and keeps those of the others in the descriptor. See OnionListener.Leave.
	Fleet bool

	// IntroductionPoints is the number of relays at which clients ask for the service,
	// from 1 to 20; zero: 3. Many of them, together with many authorized clients, make a
	// descriptor that directories refuse: Listen refuses them before.
	IntroductionPoints int `reload:"live"`
	// IntroDoSDefense asks these relays to let at most IntroDoSRate introductions a second
	// through, and IntroDoSBurst at once; zero: 25 and 200. Relays that cannot do this are
	// not asked. Without it, the consensus decides.
	IntroDoSDefense bool `reload:"live"`
	IntroDoSRate    int  `reload:"live"`
	IntroDoSBurst   int  `reload:"live"`
	// PoWDefense asks clients for proofs of work (hspow-spec), of an effort that grows while
	// more of them come than the service answers: those with the greatest effort are
	// answered first. PoWQueueRate is how many are answered in a second, and PoWQueueBurst
	// at once; zero: 250 and 2500. Clients without a proof are answered last.
	PoWDefense    bool `reload:"live"`
	PoWQueueRate  int  `reload:"live"`
	PoWQueueBurst int  `reload:"live"`
	// MaxStreams bounds the open connections that come over one circuit, which is one
	// client's. Zero: only the service's 16,384 connections bound them, of which a circuit
	// gets at most a quarter of those that are left. A connection over MaxStreams is
	// refused, or, with CloseCircuit, ends all connections of its circuit.
	MaxStreams   int  `reload:"live"`
	CloseCircuit bool `reload:"live"`

	// DeferConnected leaves the clients of Accept's connections waiting until the first Read or
	// Write: only then are they told that the connection is open. Until then OnionConn.Refuse
	// tells them a reason instead. Without it, all of Ports are open to clients that come as far as
	// the service, whatever it does with them then.
	DeferConnected bool `reload:"live"`
	// AllowUnknownPorts keeps the circuit of a client that asks for a port which neither Ports
	// nor Targets have. Without it, such a client loses its circuit with all its connections,
	// so that it costs more to look for open ports.
	AllowUnknownPorts bool `reload:"live"`

	// SingleOnion makes the service faster and NOT ANONYMOUS if it is HostCanBeFound: its
	// circuits to introduction and rendezvous points have one hop, so that relays, and
	// others through them, learn the address of this host. Clients stay anonymous. It is
	// for services whose place everybody knows. The client must be used for nothing else:
	// then it refuses to dial, and a client that has dialled refuses such a service. Empty:
	// an ordinary service. C tor calls this HiddenServiceSingleHopMode.
	SingleOnion string
}

// HostCanBeFound is the value of OnionConfig.SingleOnion that gives up the service's
// anonymity.
const HostCanBeFound = "host-can-be-found"

// The limits of introductions that C tor asks for by default.
const (
	defaultIntroRate  = 25
	defaultIntroBurst = 200
)

// maxTargets bounds the targets of one port.
const maxTargets = 1000

// key returns the service's key.
func (cfg *OnionConfig) key() (*hsservice.Key, error) {
	switch {
	case cfg.KeyDir != "" && !cfg.Key.IsZero():
		return nil, fault.New(fault.Config, "onion service: KeyDir and Key are both given")
	case cfg.KeyDir != "":
		return hsservice.OpenKey(cfg.KeyDir)
	case !cfg.Key.IsZero():
		return cfg.Key.k, nil
	}
	return hsservice.NewKey()
}

// masters returns the services of which this one is a backend.
func (cfg *OnionConfig) masters() ([]ident.Ed25519ID, error) {
	var more []string
	if cfg.KeyDir != "" {
		var err error
		if more, err = hsservice.ReadMasters(cfg.KeyDir); err != nil {
			return nil, err
		}
	}
	return hsservice.ParsePeers("master", slices.Concat(cfg.Masters, more))
}

// live turns what may change into the service's configuration.
func (cfg *OnionConfig) live() (hsservice.Live, error) {
	var out hsservice.Live
	role.Take(&out, cfg)
	switch cfg.ExportCircuitID {
	case "":
	case "haproxy":
		out.ExportCircuit = true
	default:
		return out, fault.New(fault.Config, "onion service: ExportCircuitID %q: it must be haproxy, or empty", cfg.ExportCircuitID)
	}
	if cfg.IntroDoSDefense {
		out.IntroLimit = &cell.IntroDoS{RatePerSec: int64(cmp.Or(cfg.IntroDoSRate, defaultIntroRate)), BurstPerSec: int64(cmp.Or(cfg.IntroDoSBurst, defaultIntroBurst))}
	}
	if cfg.PoWDefense {
		out.PoW = &hsservice.PoW{Rate: cmp.Or(cfg.PoWQueueRate, hsservice.DefaultPoWRate), Burst: cmp.Or(cfg.PoWQueueBurst, hsservice.DefaultPoWBurst)}
	}
	if cfg.KeyDir != "" {
		var err error
		if out.Clients, err = hsservice.ReadClients(cfg.KeyDir); err != nil {
			return out, err
		}
	}
	for _, c := range cfg.AuthorizedClients {
		if c == (OnionClient{}) {
			return out, fault.New(fault.Config, "onion service: an authorized client has no key")
		}
		if !slices.Contains(out.Clients, c.key) {
			out.Clients = append(out.Clients, c.key)
		}
	}
	if cfg.Ports != nil {
		out.Ports = map[uint16]bool{}
	}
	for _, p := range cfg.Ports {
		if p < 1 || p > 65535 {
			return out, fault.New(fault.Config, "onion service: port %d is not from 1 to 65535", p)
		}
		out.Ports[uint16(p)] = true
	}
	for p, text := range cfg.Targets {
		t, err := hsservice.ParseTarget(text)
		if err != nil {
			return out, err
		}
		if p < 1 || p > 65535 || out.Ports[uint16(p)] {
			return out, fault.New(fault.Config, "onion service: target of port %d: a port is from 1 to 65535, and not in Ports", p)
		}
		if out.Targets == nil {
			out.Targets = map[uint16][]hsservice.Target{}
		}
		out.Targets[uint16(p)] = []hsservice.Target{t}
	}
	for p, more := range cfg.MoreTargets {
		if cfg.Targets[p] == "" {
			return out, fault.New(fault.Config, "onion service: more targets of port %d, which Targets does not have", p)
		}
		for _, text := range more {
			t, err := hsservice.ParseTarget(text)
			if err != nil {
				return out, err
			}
			out.Targets[uint16(p)] = append(out.Targets[uint16(p)], t)
		}
		if n := len(out.Targets[uint16(p)]); n > maxTargets {
			return out, fault.New(fault.Config, "onion service: %d targets of port %d, more than %d", n, p, maxTargets)
		}
	}
	return out, nil
}
