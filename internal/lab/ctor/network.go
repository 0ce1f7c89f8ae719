package ctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/lab/ports"
)

// Options describes a network. The zero value of each field is usable.
type Options struct {
	Authorities int // default 3
	Relays      int // default 3: relays that refuse to exit; negative: none
	Exits       int // default 2; negative: none
	Clients     int // default 0: C tor clients, started when the consensus is out

	Scheduler       string         // "" for tor's default (KIST), or "Vanilla"
	Params          map[string]int // consensus parameters, such as cc_alg
	LogLevel        string         // default "notice"
	DistinctSubnets bool           // every node in a /16 of its own, and the rule about it on
	IPv6            bool           // ORPorts on ::1 too, and exits that exit to IPv6
	WithoutCGO      bool           // relays that advertise Relay=2-4; see the package's text
	ExitPolicy      []string       // default "accept *:*" and "accept6 *:*"
	VotingInterval  time.Duration  // whole seconds, 10 at least, default 300
	ValidIntervals  int            // voting intervals for which a consensus is valid, 2 at least, default 3 hours' worth

	// Names gives nodes other nicknames than the role and a number from 0, such as "exit0".
	Names map[string]string
	// Extra holds further torrc lines, by "*", by role ("auth", "relay", "exit",
	// "client") and by nickname.
	Extra map[string][]string
	// Bandwidth gives relays' measured bandwidths in kB/s by nickname; others
	// have 10,000. A consensus has them from three authorities on.
	Bandwidth map[string]int
	// Nameserver is the DNS server that exits ask; without one no name resolves,
	// for the machine's own resolver is not on loopback.
	Nameserver netip.AddrPort

	// DirAuthorities are the torrc lines of somebody else's authorities, which
	// the nodes then live under: this network has none of its own. Start returns
	// when the relays have those authorities' directory.
	DirAuthorities []string

	// Guests, if not nil, starts relays of other programs. It is called when the
	// authorities accept descriptors, and returns the relays: the first consensus
	// lists them, too.
	Guests func(ctx context.Context, nw *Network) ([]Guest, error)

	Dir     string // where the nodes' directories go; default a temporary one, removed by Close
	TorPath string // default $CHIVE_TOR, or "tor" in PATH
	// Tors are the paths of other tor programs for some nodes, by role and by
	// nickname as in Extra: one network can have several releases. WithoutCGO does
	// not change them.
	Tors map[string]string
	Log  *slog.Logger // progress; default none
}

// Network is a running private network.
type Network struct {
	Dir   string
	Nodes []*Node // authorities, relays, exits, clients, in this order

	// Timings has the duration of each stage of Start.
	Timings []Timing

	opts       Options
	owner      int // the process that owns the nodes
	tor        string
	relayTor   string            // tor, or its copy that does not advertise CGO
	tors       map[string]string // from Options.Tors, looked up in PATH
	gencert    string
	resolvConf string
	bandwidths string
	holdOffset int
	leases     ports.Leases
	run        *runner
	guests     []Guest
	log        *slog.Logger
	tempDir    bool

	mu     sync.Mutex
	added  []*Node    // guarded by mu: clients started by AddClient
	others []*Process // guarded by mu: programs started by Run
	closed bool       // guarded by mu

	closeOnce sync.Once
	closeErr  error
}

// Guest is a relay of another program in a network.
type Guest struct {
	Nickname string
	RSA      ident.RSAID
}

// Timing is the duration of one stage.
type Timing struct {
	Stage string
	Took  time.Duration
}

// ErrNoTor reports that tor or tor-gencert is not installed.
var ErrNoTor = errors.New("tor and tor-gencert are not installed")

// Find returns the paths of tor (torPath, or the program that the environment variable
// CHIVE_TOR names, or "tor" in PATH) and of tor-gencert, which it first looks for beside tor.
func Find(torPath string) (tor, gencert string, err error) {
	torPath = cmp.Or(torPath, os.Getenv("CHIVE_TOR"), "tor")
	if tor, err = exec.LookPath(torPath); err != nil {
		return "", "", fault.New(fault.Local, "%w: %w", ErrNoTor, err)
	}
	if gencert, err = exec.LookPath(filepath.Join(filepath.Dir(tor), "tor-gencert")); err == nil {
		return tor, gencert, nil
	}
	if gencert, err = exec.LookPath("tor-gencert"); err != nil {
		return "", "", fault.New(fault.Local, "%w: %w", ErrNoTor, err)
	}
	return tor, gencert, nil
}

// Start makes a network and returns when every authority has a consensus that lists
// every relay, every relay serves the whole directory, and every client has
// bootstrapped. Give ctx a deadline: two minutes are enough. If Start fails, it
// leaves nothing behind.
func Start(ctx context.Context, opts Options) (*Network, error) {
	nw, err := plan(opts)
	if err != nil {
		return nil, err
	}
	if err := nw.start(ctx); err != nil {
		nw.Close()
		return nil, err
	}
	return nw, nil
}

func (nw *Network) start(ctx context.Context) error {
	stage := func(name string, f func(context.Context) error) error {
		began := time.Now()
		err := f(ctx)
		took := time.Since(began)
		nw.Timings = append(nw.Timings, Timing{name, took})
		nw.log.Info("private network", "stage", name, "took", took.Round(time.Millisecond))
		return err
	}
	if err := stage("keys", nw.prepare); err != nil {
		return err
	}
	if err := stage("authorities", func(ctx context.Context) error { return startAll(ctx, nw.Authorities()) }); err != nil {
		return err
	}
	if err := stage("relays", func(ctx context.Context) error {
		return startAll(ctx, append(nw.ByRole(Relay), nw.ByRole(Exit)...))
	}); err != nil {
		return err
	}
	if nw.opts.DirAuthorities != nil {
		return nw.join(stage)
	}
	if nw.opts.Guests != nil {
		if err := stage("guests", nw.invite); err != nil {
			return err
		}
	}
	if err := stage("descriptors", nw.awaitDescriptors); err != nil {
		return err
	}
	if err := stage("consensus", nw.firstVote); err != nil {
		return err
	}
	if err := stage("caches", nw.awaitCaches); err != nil {
		return err
	}
	return nw.startClients(stage)
}

// stager runs a part of Start as a stage.
type stager func(name string, f func(context.Context) error) error

// join waits until the relays are in the other network, and starts the clients.
func (nw *Network) join(stage stager) error {
	if err := stage("caches", nw.awaitCaches); err != nil {
		return err
	}
	return nw.startClients(stage)
}

func (nw *Network) startClients(stage stager) error {
	clients := nw.ByRole(Client)
	if len(clients) == 0 {
		return nil
	}
	return stage("clients", func(ctx context.Context) error {
		if err := startAll(ctx, clients); err != nil {
			return err
		}
		return each(clients, func(n *Node) error { return n.AwaitBootstrap(ctx) })
	})
}

// invite starts the guests, and makes them as fast as the others.
func (nw *Network) invite(ctx context.Context) (err error) {
	if nw.guests, err = nw.opts.Guests(ctx, nw); err != nil {
		return err
	}
	return nw.writeBandwidths()
}

// Welcome gives a guest that has come later the bandwidth of the others. The authorities
// read of it before their next vote.
func (nw *Network) Welcome(g Guest) error {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.guests = append(nw.guests, g)
	return nw.writeBandwidths()
}

func (nw *Network) writeBandwidths() error {
	return fault.Wrap(fault.Local, atomicfile.Write(nw.bandwidths, []byte(nw.bandwidthFile(time.Now())), 0o600))
}

// nicknames returns the nickname of every relay that a consensus must list.
func (nw *Network) nicknames() []string {
	names := namesOf(nw.Routers())
	for _, g := range nw.guests {
		names = append(names, g.Nickname)
	}
	return names
}

func namesOf(nodes []*Node) []string {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return names
}

// each runs f for all nodes at the same time and joins their errors.
func each(nodes []*Node, f func(*Node) error) error {
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = f(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func startAll(ctx context.Context, nodes []*Node) error {
	return each(nodes, func(n *Node) error { return n.Start(ctx) })
}

// ByRole returns the nodes of one role.
func (nw *Network) ByRole(r Role) []*Node {
	var out []*Node
	for _, n := range nw.Nodes {
		if n.Role == r {
			out = append(out, n)
		}
	}
	return out
}

// Authorities returns the directory authorities.
func (nw *Network) Authorities() []*Node { return nw.ByRole(Authority) }

// Clients returns all C tor clients, also those of AddClient.
func (nw *Network) Clients() []*Node {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	return append(nw.ByRole(Client), nw.added...)
}

// Routers returns every node that relays: authorities, relays and exits.
func (nw *Network) Routers() []*Node {
	var out []*Node
	for _, n := range nw.Nodes {
		if n.Role != Client {
			out = append(out, n)
		}
	}
	return out
}

// Param returns a consensus parameter that the options set.
func (nw *Network) Param(name string) (value int, set bool) {
	value, set = nw.opts.Params[name]
	return value, set
}

// Node returns the node of a nickname, or nil.
func (nw *Network) Node(name string) *Node {
	for _, n := range nw.Nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// Close ends every process and removes a temporary directory. It may be called
// again.
func (nw *Network) Close() error {
	nw.closeOnce.Do(func() {
		// Kill the processes: a private network has nothing to save.
		nw.mu.Lock()
		all := append(slices.Clone(nw.Nodes), nw.added...)
		others := nw.others
		nw.closed = true
		nw.mu.Unlock()
		nw.closeErr = each(all, (*Node).Kill)
		for _, p := range others {
			if p.running() {
				nw.closeErr = errors.Join(nw.closeErr, p.end(grace, syscall.SIGKILL))
			}
		}
		nw.run.close()
		nw.leases.Release()
		if nw.tempDir {
			nw.closeErr = errors.Join(nw.closeErr, os.RemoveAll(nw.Dir))
		}
	})
	return nw.closeErr
}

// AddClient starts a further C tor client of the running network, with extra torrc
// lines, and returns when its control port answers (AwaitBootstrap waits until it
// can be used). If dir is not empty, it is the client's directory, it may contain
// an earlier client's state, and Close keeps it. Otherwise the directory belongs to
// the network. Close ends the client.
func (nw *Network) AddClient(ctx context.Context, dir string, extra ...string) (*Node, error) {
	nw.mu.Lock()
	if nw.closed {
		nw.mu.Unlock()
		return nil, fault.New(fault.Closed, "add a client: the network is closed")
	}
	n := &Node{Name: fmt.Sprintf("added%d", len(nw.added)), Role: Client}
	n.tor = nw.torOf(n)
	err := nw.place(n, 0)
	if err == nil {
		nw.added = append(nw.added, n)
	}
	nw.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if dir != "" {
		n.setDir(dir)
	}
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	text := nw.torrc(n) + strings.Join(extra, "\n") + "\n"
	if err := os.WriteFile(n.torrc, []byte(text), 0o600); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	return n, n.Start(ctx)
}

// String describes the network.
func (nw *Network) String() string {
	sched := nw.opts.Scheduler
	if sched == "" {
		sched = "KIST"
	}
	return fmt.Sprintf("C tor, %d authorities, %d relays, %d exits, %s",
		nw.opts.Authorities, nw.opts.Relays, nw.opts.Exits, sched)
}
