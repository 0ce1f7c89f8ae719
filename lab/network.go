package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/ports"
	"github.com/chivenet/chive/internal/lab/rsakeys"
	"github.com/chivenet/chive/internal/lab/target"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/internal/panics"
)

// Network is a running network. Its fields do not change.
type Network struct {
	Dir         string // the directory of the nodes' files
	NetworkFile string // the network, for chive's other commands
	SOCKS       string // the client's SOCKS port
	Echo        string // where a server sends back what it gets, "127.0.0.1:PORT"
	Client      *chive.Client
	// Stages says how long each part of Start took, in order.
	Stages []Stage

	target  *target.Target
	opts    Options
	network *chive.Network
	// authorities are those that the network file names.
	authorities []netdir.Authority
	tor         *ctor.Network // whose authorities are this network's; nil if they are Chive's
	leases      ports.Leases
	keys        rsakeys.Source
	documents   netdir.Shared // of the relays of a large network

	mu     sync.Mutex
	nodes  []*Node                    // guarded by mu
	made   map[Role]int               // guarded by mu: how many nodes of a role Add has begun
	hosts  map[string]Host            // guarded by mu: of nodes, by their names
	closes []func() error             // guarded by mu: run by Close, the last first
	closed bool                       // guarded by mu: no node starts any more
	builds map[uint64][]time.Duration // guarded by mu: how long circuits' hops took
	once   sync.Once
	err    error // of Close
}

// Stage is a part of the start, and how long it took.
type Stage struct {
	Name string        `json:"name"`
	Took time.Duration `json:"took_ns"`
}

// Start makes a network, and returns when its client has a circuit. After an
// error it leaves nothing behind.
func Start(ctx context.Context, opts Options) (*Network, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	nw := &Network{opts: opts}
	if err := nw.start(ctx); err != nil {
		return nil, errors.Join(err, nw.Close())
	}
	return nw, nil
}

func (nw *Network) start(ctx context.Context) error {
	if err := nw.makeDir(); err != nil {
		return err
	}
	var err error
	if nw.target, err = target.Start(); err != nil {
		return err
	}
	nw.Echo = nw.target.Addr(target.Echo)
	nw.onClose(nw.target.Close)
	nw.onClose(func() error { nw.leases.Release(); return nil })
	nw.enlistRelays()
	if nw.opts.CtorAuthorities {
		if err := nw.stage("network", func() error { return nw.startTor(ctx) }); err != nil {
			return err
		}
	} else if err := nw.startChive(ctx); err != nil {
		return err
	}
	if nw.opts.Bridges > 0 {
		if err := nw.stage("bridges", func() error { return nw.startBridges(ctx) }); err != nil {
			return err
		}
	}
	return nw.stage("client", func() error { return nw.startClient(ctx) })
}

// enlistRelays names Chive's relays and exits. The first maxCaches of them have a directory cache.
func (nw *Network) enlistRelays() {
	caches := 0
	for _, k := range []struct {
		role  Role
		count int
	}{{Relay, nw.opts.Relays}, {Exit, nw.opts.Exits}} {
		for i := range k.count {
			nw.enlist(&Node{Name: fmt.Sprintf("chive%s%d", k.role, i), Role: k.role, Program: "chive", NoDirCache: caches >= maxCaches, network: nw})
			caches++
		}
	}
}

func (nw *Network) makeDir() (err error) {
	if nw.Dir = nw.opts.Dir; nw.Dir == "" {
		if nw.Dir, err = os.MkdirTemp("", "chive-lab-"); err != nil {
			return local(err)
		}
		nw.onClose(func() error { return local(os.RemoveAll(nw.Dir)) })
	}
	if nw.Dir, err = filepath.Abs(nw.Dir); err != nil {
		return local(err)
	}
	if err := os.MkdirAll(nw.Dir, 0o700); err != nil {
		return local(err)
	}
	// No network is started from another one's files, so none of them needs to outlast a crash of the machine.
	end, err := atomicfile.Passing(nw.Dir)
	if err != nil {
		return err
	}
	nw.onClose(func() error { end(); return nil })
	// A mixture of old and new keys and descriptors does not work.
	nw.NetworkFile = filepath.Join(nw.Dir, "network.toml")
	if _, err := os.Lstat(nw.NetworkFile); err == nil {
		return fault.New(fault.Config, "lab: %s has an earlier network's files: empty it, or choose another directory", nw.Dir)
	}
	return nil
}

// stage runs a part of Start and records how long it took.
func (nw *Network) stage(name string, f func() error) error {
	began := time.Now()
	if err := f(); err != nil {
		return fault.New(fault.KindOf(err), "lab: %s: %w", name, err)
	}
	s := Stage{name, time.Since(began)}
	nw.Stages = append(nw.Stages, s)
	nw.opts.Progress(s)
	return nil
}

// describe reads the network file's text, and writes the file for other programs.
func (nw *Network) describe(text []byte) (err error) {
	if nw.network, err = chive.ParseNetwork(text); err != nil {
		return err
	}
	d, err := netfile.Parse("lab", text)
	if err != nil {
		return err
	}
	nw.authorities = d.Authorities
	return writeSecret(nw.NetworkFile, text)
}

func writeSecret(path string, text []byte) error { return local(os.WriteFile(path, text, 0o600)) }

// relays returns Chive's relays, including exits.
func (nw *Network) relays() []*Node {
	var out []*Node
	for _, n := range nw.Nodes() {
		if n.Program == "chive" && (n.Role == Relay || n.Role == Exit) {
			out = append(out, n)
		}
	}
	return out
}

// startRelays starts Chive's relays, all at the same time.
func (nw *Network) startRelays(ctx context.Context) error {
	nodes := nw.relays()
	nw.onClose(func() error { return each(nodes, (*Node).Stop) })
	return each(nodes, func(n *Node) error { return n.startRelay(ctx) })
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

// Nodes returns all nodes, also those that Add has started and those that were
// stopped.
func (nw *Network) Nodes() []*Node {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	return slices.Clone(nw.nodes)
}

// enlist adds nodes to the network's.
func (nw *Network) enlist(nodes ...*Node) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.nodes = append(nw.nodes, nodes...)
}

// enlistFirst puts nodes before the others.
func (nw *Network) enlistFirst(nodes ...*Node) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.nodes = append(slices.Clone(nodes), nw.nodes...)
}

// find returns the first node of which is is true, or nil.
func (nw *Network) find(is func(*Node) bool) *Node {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	if i := slices.IndexFunc(nw.nodes, is); i >= 0 {
		return nw.nodes[i]
	}
	return nil
}

// Node returns the node of a name, or nil.
func (nw *Network) Node(name string) *Node {
	return nw.find(func(n *Node) bool { return n.Name == name })
}

// byFingerprint returns a relay, or nil.
func (nw *Network) byFingerprint(fp string) *Node {
	return nw.find(func(n *Node) bool { return n.Fingerprint == fp && fp != "" })
}

// URL returns the URL of n bytes on the network's web server, which are always the
// same. It listens at loopback: a program that goes around the network reaches it,
// too.
func (nw *Network) URL(n int64) string { return nw.target.URL(n) }

// TargetBytes is the size of the download at the URL in the network's JSON, in
// bytes.
const TargetBytes = 1_000_000

// MarshalJSON describes the network for programs.
func (nw *Network) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		NetworkFile string  `json:"network_file"`
		SOCKS       string  `json:"socks"`
		TargetURL   string  `json:"target_url"`
		Dir         string  `json:"dir"`
		Nodes       []*Node `json:"nodes"`
	}{nw.NetworkFile, nw.SOCKS, nw.URL(TargetBytes), nw.Dir, nw.Nodes()})
}

// onClose makes Close run f before the functions that were added earlier.
func (nw *Network) onClose(f func() error) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.closes = append(nw.closes, f)
}

func (nw *Network) isClosed() bool {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	return nw.closed
}

// Close ends every node and the client, waits for them, and removes a temporary
// directory. It may be called again.
func (nw *Network) Close() error {
	nw.once.Do(func() {
		nw.mu.Lock()
		closes := nw.closes
		nw.closes, nw.closed = nil, true
		nw.mu.Unlock()
		var errs []error
		for _, f := range slices.Backward(closes) {
			errs = append(errs, f())
		}
		nw.err = errors.Join(append(errs, panics.Err())...)
	})
	return nw.err
}

// local marks an error of this machine.
func local(err error) error { return fault.Wrap(fault.Local, err) }
