package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/lab/host"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/torctl"
)

// world has the networks and nodes of a run. Each starts when it is first asked for, so
// that what is only to be finished starts no more than it needs.
type world struct {
	cfg   Config
	dir   string
	nets  map[string]*lab.Network
	sites map[string]*site
	lines map[Kind]*line // between those that are behind links and everybody else
	ends  []func() error
}

// site is a measured node and the way to it.
type site struct {
	kind  Kind
	node  *enode.Node
	pids  []int // whose memory and time count
	tor   int   // of these, the Tor daemon's; 0: none
	dial  func(ctx context.Context, isolation string) (net.Conn, error)
	reset func(ctx context.Context) error // forgets the node: nil if there is nothing to forget
}

func newWorld(cfg Config) (*world, error) {
	dir, err := os.MkdirTemp("", "chive-eth-bench-")
	if err != nil {
		return nil, err
	}
	return &world{cfg: cfg, dir: dir, nets: map[string]*lab.Network{}, lines: map[Kind]*line{}, sites: map[string]*site{}}, nil
}

// close ends everything, the last first.
func (w *world) close() (err error) {
	for _, end := range slices.Backward(w.ends) {
		err = errors.Join(err, end())
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}

// Names of networks. Those of stock relays are named by their kind.
const (
	ofChive = "chive" // Chive's relays; Tor's clients are under its authorities, too
	ofLinks = "links" // the same, with all clients behind links
)

// torLines are lines of each tor's torrc. A tor learns from its circuits how long one may take to be
// built. On one machine that is 50 ms, and in a burst many take longer. A service gives such a rendezvous
// circuit up, and after two more of them the client, which then waits for its 120 s.
var torLines = []string{"LearnCircuitBuildTimeout 0"}

// network starts a network.
func (w *world) network(ctx context.Context, name string) (*lab.Network, error) {
	if nw := w.nets[name]; nw != nil {
		return nw, nil
	}
	w.cfg.Progress("start the relays: " + name)
	opts, err := w.options(name)
	if err != nil {
		return nil, err
	}
	nw, err := lab.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	w.nets[name] = nw
	w.ends = append(w.ends, nw.Close)
	return nw, nil
}

// options returns what a network is started with.
func (w *world) options(name string) (lab.Options, error) {
	opts := lab.Options{VotingInterval: 5 * time.Minute, Authorities: 1, Relays: 8, Exits: 1, Dir: filepath.Join(w.dir, "net-"+name), Log: w.cfg.Log, CtorTorrc: slices.Clone(torLines)}
	if slices.Contains(w.cfg.Sizes.Kinds, Tor) {
		opts.CtorClients = 2
	}
	switch name {
	case ofLinks:
		l, err := w.link(Chive, linkDelay)
		if err != nil {
			return opts, err
		}
		opts.Client.Proxy = "http://" + l.addr()
		if opts.CtorClients > 0 {
			if l, err = w.link(Tor, linkDelay); err != nil {
				return opts, err
			}
			opts.CtorTorrc = append(opts.CtorTorrc, "HTTPSProxy "+l.addr())
		}
	case string(Vanilla), string(KIST):
		opts.Authorities, opts.Relays, opts.Exits = 3, -1, -1
		opts.CtorAuthorities, opts.CtorRelays, opts.CtorExits, opts.CtorClients = true, 5, 1, 2
		if name == string(Vanilla) {
			opts.CtorTorrc = append(opts.CtorTorrc, "Schedulers Vanilla")
		}
	}
	return opts, nil
}

// link opens the line of a kind. Both ends of an onion are behind it, and share it: what
// one sends up comes down to the other.
func (w *world) link(k Kind, delay time.Duration) (*line, error) {
	if w.lines[k] == nil {
		l, err := openLine(delay, linkRate)
		if err != nil {
			return nil, err
		}
		w.lines[k] = l
		w.ends = append(w.ends, l.Close)
	}
	return w.lines[k], nil
}

// site starts the node of a kind.
func (w *world) site(ctx context.Context, k Kind) (*site, error) { return w.start(ctx, k, "", false) }

// linked starts the node of a kind that is behind a link.
func (w *world) linked(ctx context.Context, k Kind) (*site, error) {
	return w.start(ctx, k, ofLinks, false)
}

// all starts the nodes of some kinds.
func (w *world) all(ctx context.Context, kinds []Kind) (out []*site, err error) {
	for _, k := range kinds {
		s, err := w.site(ctx, k)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// start starts a node: in the network of its kind, or in one that is named.
func (w *world) start(ctx context.Context, k Kind, in string, both bool) (*site, error) {
	name := fmt.Sprint("node-", k, in, both)
	if s := w.sites[name]; s != nil {
		return s, nil
	}
	if in == "" {
		in = ofChive
		if k == Vanilla || k == KIST {
			in = string(k)
		}
	}
	args := append(slices.Clone(w.cfg.Args), "--kind", string(k), "--dir", filepath.Join(w.dir, name))
	if both {
		args = append(args, "--both")
	}
	s := &site{kind: k}
	var onions devp2p.Onions
	if k != Clear {
		nw, err := w.network(ctx, in)
		if err != nil {
			return nil, err
		}
		if onions, args, err = s.join(nw, args); err != nil {
			return nil, err
		}
		if in == ofLinks && k == Chive {
			args = append(args, "--proxy", "http://"+w.lines[Chive].addr())
		}
		w.ends = append(w.ends, onions.Close)
	}
	w.cfg.Progress("start a node: " + string(k))
	p, said, err := host.Start(ctx, io.Discard, w.cfg.Program, args...)
	if err != nil {
		return nil, err
	}
	w.ends = append(w.ends, p.Stop)
	s.pids = append(s.pids, p.PID())
	if s.node, err = enode.Parse(enode.ValidSchemes, said["node"]); err != nil {
		return nil, err
	}
	s.dial = s.dialOnion(onions)
	if k == Clear {
		direct := new(net.Dialer).DialContext
		if in == ofLinks {
			l, err := w.link(Clear, 2*linkDelay) // the links of both ends are one
			if err != nil {
				return nil, err
			}
			direct = l.dial
		}
		s.dial = func(ctx context.Context, _ string) (net.Conn, error) {
			ep, ok := s.node.TCPEndpoint()
			if !ok {
				return nil, errors.New("the node's record has no address")
			}
			return direct(ctx, "tcp", ep.String())
		}
	}
	w.sites[name] = s
	return s, nil
}

// join gives a site its onions, and its node the arguments for them.
func (s *site) join(nw *lab.Network, args []string) (devp2p.Onions, []string, error) {
	if s.kind == Chive {
		s.reset = func(context.Context) error { nw.Client.NewIdentity(); return nil }
		return devp2p.Embedded(nw.Client), append(args, "--network", nw.NetworkFile), nil
	}
	daemon, mine := nw.Node("client0"), nw.Node("client1")
	if daemon == nil || mine == nil {
		return nil, nil, errors.New("the network has no clients of a stock tor")
	}
	s.tor = daemon.PID()
	s.pids = append(s.pids, s.tor)
	s.reset = newIdentity(mine.Control)
	onions, err := devp2p.TorProxy(devp2p.TorProxyConfig{SOCKS: mine.SOCKS})
	return onions, append(args, "--control", daemon.Control, "--socks", daemon.SOCKS), err
}

// newnymEvery is how long a Tor daemon waits between two new identities, and a little more.
const newnymEvery = 10500 * time.Millisecond

// newIdentity asks a Tor daemon for a new identity, not sooner than it gives one.
func newIdentity(control string) func(context.Context) error {
	var last time.Time
	return func(ctx context.Context) error {
		if err := wait(ctx, time.Until(last.Add(newnymEvery))); err != nil {
			return err
		}
		c, err := torctl.Dial(ctx, control, torctl.Auth{})
		if err != nil {
			return err
		}
		_, err = c.Command(ctx, "SIGNAL NEWNYM")
		last = time.Now()
		return errors.Join(err, c.Close())
	}
}

func (s *site) dialOnion(onions devp2p.Onions) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, isolation string) (net.Conn, error) {
		name, port, err := devp2p.OnionOf(s.node)
		if err != nil {
			return nil, err
		}
		return onions.DialOnion(ctx, net.JoinHostPort(name, strconv.Itoa(port)), isolation)
	}
}

// limit is how long one connection may take.
const limit = 2 * time.Minute

// connect makes a connection with a circuit of its own.
func (s *site) connect(ctx context.Context) (*remote, Stages, error) { return s.by(ctx, rand.Text()) }

// by makes a connection over the circuit of an isolation key. It is closed when ctx ends.
func (s *site) by(ctx context.Context, isolation string) (*remote, Stages, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	to, err := pubkey(s.node)
	if err != nil {
		return nil, Stages{}, err
	}
	r, stages, err := connect(limited, func(ctx context.Context) (net.Conn, error) { return s.dial(ctx, isolation) }, to)
	if err != nil {
		return nil, stages, fmt.Errorf("%s: %w", s.kind, err)
	}
	stop := context.AfterFunc(ctx, func() { r.conn.Close() })
	r.stop = func() { stop() }
	return r, stages, nil
}

// client returns the client of Chive's network, which is in this process.
func (w *world) client(ctx context.Context) (*chive.Client, error) {
	nw, err := w.network(ctx, ofChive)
	if err != nil {
		return nil, err
	}
	return nw.Client, nil
}

// wait waits, if there is something to wait for.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
