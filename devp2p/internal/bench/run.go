package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/lab/host"

	"github.com/chivenet/chive/devp2p"
)

// Options are the sizes of a run.
type Options struct {
	Kinds       []Kind
	Connections int   // of each kind; their stages are measured
	Bytes       int64 // of the download
	Rounds      int   // of ping-pong
	Peers       []int // numbers of peers, rising
	Idle        time.Duration
	// Program and Args start a measured node: the flags of NodeConfig follow.
	Program string
	Args    []string
	Log     *slog.Logger
	// Progress is told what is being measured.
	Progress func(string)
}

// Defaults returns a whole run's options.
func Defaults() Options {
	return Options{Kinds: Kinds, Connections: 20, Bytes: 100_000_000, Rounds: 300, Peers: []int{10, 50, 100, 200}, Idle: 30 * time.Second}
}

// Short returns those of a quick look.
func Short() Options {
	return Options{Kinds: Kinds, Connections: 5, Bytes: 10_000_000, Rounds: 50, Peers: []int{10}, Idle: 5 * time.Second}
}

// Result is what one kind came to.
type Result struct {
	Kind     Kind            `json:"kind"`
	Setup    []Stages        `json:"setup"`
	Echo     []time.Duration `json:"echo_ns"` // sorted
	Bytes    int64           `json:"bytes"`
	Download time.Duration   `json:"download_ns"`
	Peers    []Usage         `json:"peers"`
}

// Usage is what a node with so many peers uses. With a stock tor, both processes count.
type Usage struct {
	Peers int           `json:"peers"`
	RSS   int64         `json:"rss_bytes"`
	CPU   time.Duration `json:"cpu_ns"` // in Over
	Over  time.Duration `json:"over_ns"`
}

// site is a measured node and the way to it.
type site struct {
	kind Kind
	node *enode.Node
	pids []int // whose memory and time count
	dial func(ctx context.Context, isolation string) (net.Conn, error)
}

// Run measures. Tor and Vanilla need tor and tor-gencert.
func Run(ctx context.Context, opts Options) (_ []Result, err error) {
	if opts.Progress == nil {
		opts.Progress = func(string) {}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	dir, err := os.MkdirTemp("", "chive-eth-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	networks, stopAll, err := startNetworks(ctx, opts, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stopAll()) }()
	onions := devp2p.Embedded(networks[Chive].Client)
	defer onions.Close()
	var sites []*site
	for _, k := range opts.Kinds {
		opts.Progress("a node by " + string(k))
		s, stop, err := startSite(ctx, opts, k, dir, networks, onions)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
		defer stop()
		sites = append(sites, s)
	}
	results := make([]Result, len(sites))
	for i, s := range sites {
		results[i] = Result{Kind: s.kind, Bytes: opts.Bytes}
	}
	if err := setups(ctx, opts, sites, results); err != nil {
		return nil, err
	}
	for i, s := range sites {
		if err := speed(ctx, opts, s, &results[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", s.kind, err)
		}
	}
	for i, s := range sites {
		if err := crowd(ctx, opts, s, &results[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", s.kind, err)
		}
	}
	return results, nil
}

// startNetworks starts the networks of each kind's relays. Tor's clients, the node's and the measuring side's, are
// under the authorities of Chive's network; for Vanilla they have one of their own, of which all is C tor's.
func startNetworks(ctx context.Context, opts Options, dir string) (_ map[Kind]*lab.Network, stop func() error, err error) {
	common := lab.Options{VotingInterval: 5 * time.Minute, Authorities: 1, Relays: 8, Exits: 1, Dir: filepath.Join(dir, "lab"), Log: opts.Log}
	all := map[Kind]*lab.Network{}
	stop = func() error {
		var err error
		for _, nw := range all {
			err = errors.Join(err, nw.Close())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	opts.Progress("a network of relays")
	if slices.Contains(opts.Kinds, Tor) {
		common.CtorClients = 2
	}
	if all[Chive], err = lab.Start(ctx, common); err != nil {
		return nil, nil, err
	}
	if !slices.Contains(opts.Kinds, Vanilla) {
		return all, stop, nil
	}
	opts.Progress("a network of stock relays")
	all[Vanilla], err = lab.Start(ctx, lab.Options{VotingInterval: 5 * time.Minute, Authorities: 3, Relays: -1, Exits: -1,
		CtorAuthorities: true, CtorRelays: 5, CtorExits: 1, CtorClients: 2, CtorTorrc: []string{"Schedulers Vanilla"},
		Dir: filepath.Join(dir, "vanilla"), Log: opts.Log})
	if err != nil {
		delete(all, Vanilla)
		return nil, nil, err
	}
	return all, stop, nil
}

// startSite starts a measured node.
func startSite(ctx context.Context, opts Options, k Kind, dir string, networks map[Kind]*lab.Network, onions devp2p.Onions) (*site, func(), error) {
	args := append(slices.Clone(opts.Args), "--kind", string(k), "--dir", filepath.Join(dir, "node-"+string(k)))
	s := &site{kind: k}
	switch k {
	case Chive:
		args = append(args, "--network", networks[Chive].NetworkFile)
	case Tor, Vanilla:
		nw := networks[Chive]
		if k == Vanilla {
			nw = networks[Vanilla]
		}
		daemon, mine := nw.Node("client0"), nw.Node("client1")
		args = append(args, "--control", daemon.Control, "--socks", daemon.SOCKS)
		s.pids = []int{daemon.PID()}
		var err error
		if onions, err = devp2p.TorProxy(devp2p.TorProxyConfig{SOCKS: mine.SOCKS}); err != nil {
			return nil, nil, err
		}
	}
	p, said, err := host.Start(ctx, io.Discard, opts.Program, args...)
	if err != nil {
		return nil, nil, err
	}
	stop := func() { p.Stop() }
	s.pids = append(s.pids, p.PID())
	if s.node, err = enode.Parse(enode.ValidSchemes, said["node"]); err != nil {
		stop()
		return nil, nil, err
	}
	s.dial = func(ctx context.Context, isolation string) (net.Conn, error) {
		if k == Clear {
			ep, ok := s.node.TCPEndpoint()
			if !ok {
				return nil, errors.New("the node's record has no address")
			}
			return new(net.Dialer).DialContext(ctx, "tcp", ep.String())
		}
		host, port, err := devp2p.OnionOf(s.node)
		if err != nil {
			return nil, err
		}
		return onions.DialOnion(ctx, net.JoinHostPort(host, strconv.Itoa(port)), isolation)
	}
	return s, stop, nil
}

// limit is how long one connection may take.
const limit = 2 * time.Minute

// connect makes a connection of its own circuit.
func (s *site) connect(ctx context.Context) (*remote, Stages, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	to, err := pubkey(s.node)
	if err != nil {
		return nil, Stages{}, err
	}
	key := rand.Text()
	return connect(ctx, func(ctx context.Context) (net.Conn, error) { return s.dial(ctx, key) }, to)
}

// setups measures connections, of all kinds in turn. The first of each is not counted: it
// fetches what later ones have.
func setups(ctx context.Context, opts Options, sites []*site, results []Result) error {
	for i := range opts.Connections + 1 {
		opts.Progress(fmt.Sprintf("connection %d of %d", i, opts.Connections))
		for j, s := range sites {
			r, stages, err := s.connect(ctx)
			if err != nil {
				return fmt.Errorf("%s: connection %d: %w", s.kind, i, err)
			}
			r.conn.Close()
			if i > 0 {
				results[j].Setup = append(results[j].Setup, stages)
			}
		}
	}
	return nil
}

// speed measures ping-pong and a download.
func speed(ctx context.Context, opts Options, s *site, res *Result) error {
	r, _, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer r.conn.Close()
	stop := context.AfterFunc(ctx, func() { r.conn.Close() })
	defer stop()
	opts.Progress("ping-pong by " + string(s.kind))
	for range opts.Rounds {
		d, err := r.echo(make([]byte, 100))
		if err != nil {
			return fmt.Errorf("ping-pong: %w", err)
		}
		res.Echo = append(res.Echo, d)
	}
	slices.Sort(res.Echo)
	opts.Progress("download by " + string(s.kind))
	if res.Download, err = r.get(opts.Bytes); err != nil {
		return fmt.Errorf("download: %w", err)
	}
	return nil
}

// dials is how many connections are made at the same time.
const dials = 8

// crowd measures what a node with more and more peers uses.
func crowd(ctx context.Context, opts Options, s *site, res *Result) error {
	var mu sync.Mutex
	var open []*remote
	var wg sync.WaitGroup
	defer func() {
		for _, r := range open {
			r.conn.Close()
		}
		wg.Wait()
	}()
	for _, n := range append([]int{0}, opts.Peers...) {
		opts.Progress(fmt.Sprintf("%d peers by %s", n, s.kind))
		var dialing sync.WaitGroup
		slots, errs := make(chan struct{}, dials), make(chan error, max(n-len(open), 0))
		for range n - len(open) {
			slots <- struct{}{}
			dialing.Go(func() {
				defer func() { <-slots }()
				r, _, err := s.connect(ctx)
				if err != nil {
					errs <- err
					return
				}
				mu.Lock()
				open = append(open, r)
				mu.Unlock()
				wg.Go(r.hold)
			})
		}
		dialing.Wait()
		close(errs)
		if err := <-errs; err != nil {
			return fmt.Errorf("%d peers: %w", n, err)
		}
		u, err := s.usage(ctx, opts.Idle)
		if err != nil {
			return err
		}
		u.Peers = n
		res.Peers = append(res.Peers, u)
	}
	return nil
}

// usage measures the node's processes for a while in which nothing is asked of them.
func (s *site) usage(ctx context.Context, over time.Duration) (u Usage, err error) {
	wait := func(d time.Duration) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(d):
			return nil
		}
	}
	if err := wait(over / 3); err != nil { // the work of the last connections ends
		return u, err
	}
	sum := func() (cpu time.Duration, rss int64, err error) {
		for _, pid := range s.pids {
			v, err := host.UsageOf(pid)
			if err != nil {
				return 0, 0, err
			}
			cpu, rss = cpu+v.CPU, rss+v.RSS
		}
		return cpu, rss, nil
	}
	before, _, err := sum()
	if err != nil {
		return u, err
	}
	began := time.Now()
	if err := wait(over); err != nil {
		return u, err
	}
	after, rss, err := sum()
	return Usage{RSS: rss, CPU: after - before, Over: time.Since(began)}, err
}
