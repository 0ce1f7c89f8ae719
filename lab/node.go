package lab

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/child"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/relay"
)

// Role is what a node is for.
type Role string

// The roles.
const (
	Authority    Role = "authority"
	Relay        Role = "relay" // lets nothing out: guard and middle
	Exit         Role = "exit"
	Bridge       Role = "bridge"
	Client       Role = "client"
	OnionService Role = "onion"
)

// Node is one node of a network. Its exported fields do not change.
type Node struct {
	Name        string `json:"name"`
	Role        Role   `json:"role"`
	Program     string `json:"program"` // "chive" or "tor"
	Fingerprint string `json:"fingerprint,omitempty"`
	ORPort      string `json:"orport,omitempty"`
	SOCKS       string `json:"socks,omitempty"`        // a client's
	NoDirCache  bool   `json:"no_dir_cache,omitempty"` // a relay that does not serve the directory
	Control     string `json:"control,omitempty"`      // the control port of a node of C tor, with a cookie
	Onion       string `json:"onion,omitempty"`        // an onion service's: "ADDRESS.onion", with the target's web server at port 80
	// Bridge has the lines of a bridge for clients: the ORPort's first, then one
	// for each transport.
	Bridge []string `json:"bridge,omitempty"`

	network *Network
	rsa     ident.RSAID
	client  *chive.Client        // of a client or an onion service in this process
	service *chive.OnionListener // of an onion service in this process

	mu    sync.Mutex           // guards what follows; held while it starts and stops
	relay *relay.Relay         // in this process
	auth  *authority.Authority // in this process
	close func() error         // ends the node's part of this process
	child *child.Process       // in a process of its own
	pid   func() int           // of a process that other code manages
}

// PID returns the number of the node's process; 0 if it does not run, or runs
// in this process.
func (n *Node) PID() int {
	if n.pid != nil {
		return n.pid()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.child == nil {
		return 0
	}
	return n.child.PID()
}

// Client returns the client of a client or an onion service that Add has started in
// this process, or nil.
func (n *Node) Client() *chive.Client { return n.client }

func init() {
	authority.OfNode = func(node any) *authority.Authority {
		n := node.(*Node)
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.auth
	}
}

// Relay returns the relay of a node that runs in this process, or nil.
func (n *Node) Relay() *relay.Relay {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.relay
}

// startRelay starts a relay or an exit. The node gets its identity and ORPort
// the first time, and keeps them.
func (n *Node) startRelay(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.refusedLocked(); err != nil {
		return err
	}
	if n.network.opts.Processes {
		return n.startRelayChild(ctx)
	}
	listen, err := n.listen()
	if err != nil {
		return err
	}
	cfg := relay.Config{
		Network: n.network.network, DataDir: n.dir(), Logger: n.log(), Nickname: n.Name, Contact: "lab",
		ORPort: []string{listen}, AssumeReachable: true, ShutdownWait: -1,
	}
	if n.Role == Exit {
		cfg.ExitPolicy, cfg.ExitPrivate, cfg.IPv6Exit = exitPolicy, true, n.network.hasIPv6()
		cfg.Nameservers = []string{n.network.target.Nameserver().String()}
	}
	if n.Role == Bridge {
		cfg.Bridge, cfg.ServerTransportPlugins, cfg.ServerTransportListen = true, n.network.opts.BridgeTransports, n.transportListen()
	}
	cfg.NoDirCache = n.NoDirCache
	if f := n.network.opts.Relay; f != nil {
		f(n.Name, &cfg)
	}
	h, err := n.network.hostOf(n.Name)
	if err != nil {
		return err
	}
	r, err := openRelay(cfg, h, n.network)
	if err != nil {
		return fault.New(fault.KindOf(err), "%s: %w", n.Name, err)
	}
	fp, _ := r.Fingerprint()
	if err := n.settle(fp, r.Addrs()[0].String()); err != nil {
		return errors.Join(err, r.Close())
	}
	n.relay, n.close = r, func() error { return r.Shutdown(context.Background()) }
	if n.Role == Bridge {
		return n.awaitBridge(ctx, r)
	}
	return nil
}

// refusedLocked is an error when nothing may begin any more, as nobody would end it. Close
// stops what has begun before this.
func (n *Node) refusedLocked() error {
	if n.network.isClosed() {
		return fault.New(fault.Closed, "lab: %s: the network is closed", n.Name)
	}
	return nil
}

// exitPolicy accepts everything: all destinations are on loopback.
var exitPolicy = []string{"accept *:*"}

// settle records the node's fingerprint and address.
func (n *Node) settle(fp, orport string) (err error) {
	n.Fingerprint, n.ORPort = fp, orport
	if n.rsa, err = ident.ParseRSAID(fp); err != nil {
		return fault.New(fault.Local, "%s: its fingerprint: %w", n.Name, err)
	}
	return nil
}

func (n *Node) dir() string { return filepath.Join(n.network.Dir, n.Name) }

func (n *Node) log() *slog.Logger { return n.network.opts.Log.With("node", n.Name) }

// hostPort is the ORPort of a relay with a host of its own, where nobody else takes ports.
const hostPort = 9001

// listen returns the address of the ORPort: a free port that no other program
// opens between a stop and a start, so that a restart uses the same one.
func (n *Node) listen() (string, error) {
	if n.ORPort != "" {
		return n.ORPort, nil
	}
	h, err := n.network.hostOf(n.Name)
	if err != nil {
		return "", err
	}
	if h != nil {
		return netip.AddrPortFrom(h.Addr(), hostPort).String(), nil
	}
	port, err := n.network.leases.Take(loopback)
	return netip.AddrPortFrom(loopback, port).String(), err
}

// Stop ends the node and waits until it has ended.
func (n *Node) Stop() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var err error
	if n.close != nil {
		err = n.close()
		n.relay, n.auth, n.close = nil, nil, nil
	}
	if n.child != nil {
		err = errors.Join(err, n.child.Stop())
		n.child = nil
	}
	return err
}

// Kill kills the process of a node, without a clean shutdown. A node in this
// process is stopped instead.
func (n *Node) Kill() error {
	n.mu.Lock()
	p := n.child
	n.child = nil
	n.mu.Unlock()
	if p != nil {
		return p.Kill()
	}
	return n.Stop()
}

// Restart stops a relay and starts it again, with its keys and its port.
func (n *Node) Restart(ctx context.Context) error {
	if n.Program != "chive" || n.Role != Relay && n.Role != Exit && n.Role != Bridge {
		return fault.New(fault.Config, "lab: %s is no relay of Chive's: it is not restarted", n.Name)
	}
	if err := n.Stop(); err != nil {
		return err
	}
	return n.startRelay(ctx)
}

func (nw *Network) hasIPv6() bool { return nw.target.Addr6(target.Echo) != "" }

// logWriter copies a process's log, line by line.
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		w.log.Info(strings.TrimSpace(line))
	}
	return len(b), nil
}
