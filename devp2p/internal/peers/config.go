package peers

import (
	"cmp"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
)

// Config is the configuration of a Manager.
type Config struct {
	Key       *ecdsa.PrivateKey // of the node; required
	Transport *devp2p.Transport // reaches nodes; required. It stays the caller's
	Protocols []p2p.Protocol    // more can be added by Handle, before Run
	Name      string            // for peers; empty: "chive-eth"
	// Server is a server that the caller has started and will stop, such as that of
	// go-ethereum's node object. Its MaxPeers counts, too, and Protocols must be its own. It
	// must not dial, listen or discover by itself: then Run refuses it. Nil: Run starts one.
	Server *p2p.Server

	// MaxPeers bounds all connections; zero: 50. MaxOutbound bounds those that are dialled
	// to nodes that are not static; zero: half of MaxPeers.
	MaxPeers    int
	MaxOutbound int
	// MaxDials bounds dials at the same time; zero: 8.
	MaxDials int
	// MaxPending bounds incoming connections whose handshake is not finished; zero: 16.
	MaxPending int
	// PerCircuit bounds incoming connections over one circuit of the onion, which is one
	// client's, or from one address; zero: 4.
	PerCircuit int
	// HandshakeTimeout is how long RLPx's handshake may take, where go-ethereum allows 5
	// seconds; zero: 20 seconds.
	HandshakeTimeout time.Duration
	// BackoffMin and BackoffMax bound the wait before a node is dialled again; zero: 15
	// seconds and 30 minutes. Static nodes wait for 2 minutes at most.
	BackoffMin, BackoffMax time.Duration

	// Static nodes are always dialled. Trusted nodes may come in when there is no room.
	Static, Trusted []*enode.Node

	// Dir keeps the onion's key and the nodes that are known. Empty: nothing is kept.
	Dir string
	// NoOnion opens no onion service: nobody can connect to this node by an onion.
	NoOnion bool
	// Port is the onion's virtual port; zero: 30303.
	Port int
	// ListenAddr is an IP address and port where nodes can connect outside Tor; its port
	// is Port. Policy only-onion refuses all but loopback. Empty: none.
	ListenAddr string

	Log *slog.Logger // gets no address, name or key; nil: no log
}

const staticBackoffMax = 2 * time.Minute

// complete checks the configuration and fills in the defaults.
func (cfg *Config) complete() error {
	if cfg.Key == nil || cfg.Transport == nil {
		return errors.New("peers: Key and Transport are required")
	}
	cfg.Name = cmp.Or(cfg.Name, "chive-eth")
	for _, f := range []struct {
		name string
		v    *int
		def  int
	}{
		{"MaxPeers", &cfg.MaxPeers, 50}, {"MaxDials", &cfg.MaxDials, 8}, {"MaxPending", &cfg.MaxPending, 16},
		{"PerCircuit", &cfg.PerCircuit, 4}, {"Port", &cfg.Port, 30303},
	} {
		if *f.v < 0 {
			return fmt.Errorf("peers: %s cannot be negative", f.name)
		}
		*f.v = cmp.Or(*f.v, f.def)
	}
	if cfg.MaxOutbound < 0 || cfg.HandshakeTimeout < 0 || cfg.BackoffMin < 0 || cfg.BackoffMax < 0 {
		return errors.New("peers: limits and times cannot be negative")
	}
	cfg.MaxOutbound = min(cmp.Or(cfg.MaxOutbound, (cfg.MaxPeers+1)/2), cfg.MaxPeers)
	cfg.HandshakeTimeout = cmp.Or(cfg.HandshakeTimeout, 20*time.Second)
	cfg.BackoffMin = cmp.Or(cfg.BackoffMin, 15*time.Second)
	cfg.BackoffMax = max(cmp.Or(cfg.BackoffMax, 30*time.Minute), cfg.BackoffMin)
	if cfg.Port > 65535 {
		return fmt.Errorf("peers: port %d is not from 1 to 65535", cfg.Port)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := cfg.checkListen(); err != nil {
		return err
	}
	for i, n := range cfg.Static {
		if _, err := cfg.Transport.Route(n); err != nil {
			return fmt.Errorf("peers: static node %d: %w", i+1, err)
		}
	}
	return nil
}

// checkServer names the settings of a server that would reach others around the
// transport.
func checkServer(srv *p2p.Server) error {
	var wrong []string
	if !srv.NoDial {
		wrong = append(wrong, "NoDial is false: it dials by itself")
	}
	if !srv.NoDiscovery {
		wrong = append(wrong, "NoDiscovery is false: it opens a UDP socket")
	}
	if srv.Config.DiscoveryV4 || srv.Config.DiscoveryV5 {
		wrong = append(wrong, "DiscoveryV4 or DiscoveryV5 is true")
	}
	if srv.ListenAddr != "" {
		wrong = append(wrong, "ListenAddr is not empty: it listens by itself")
	}
	if srv.NAT != nil {
		wrong = append(wrong, "NAT is not nil: it asks the router")
	}
	if wrong != nil {
		return fmt.Errorf("peers: the server cannot be used: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// checkListen checks ListenAddr. Names are refused: nothing here looks names up.
func (cfg *Config) checkListen() error {
	if cfg.ListenAddr == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(cfg.ListenAddr)
	if err != nil {
		return fmt.Errorf("peers: ListenAddr: %w", err)
	}
	if host == "" {
		host = "0.0.0.0"
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return errors.New("peers: ListenAddr: it has no IP address")
	}
	if !cfg.Transport.Policy().AllowsClearnet() && !addr.IsLoopback() {
		return fmt.Errorf("peers: ListenAddr: policy %s listens on loopback only", cfg.Transport.Policy())
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return errors.New("peers: ListenAddr: the port is not from 0 to 65535")
	}
	if n != 0 && int(n) != cfg.Port {
		return fmt.Errorf("peers: ListenAddr has port %d and Port is %d: a node record has one port", n, cfg.Port)
	}
	return nil
}
