package wan

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/chivelab/internal/linkstack"
	"github.com/chivenet/chive/chivelab/internal/linktun"
	"github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/netfile"
	"github.com/chivenet/chive/internal/panics"
)

// network is an authority, the server and the relays of one program.
type network struct {
	nodes
	run    *Run
	relays Program
	net    *links.Net
	dir    string
	hosts  []*host         // the relays and the server
	own    *linkstack.Host // of the authority

	ctx    context.Context // until a node has ended, or close
	fail   context.CancelCauseFunc
	voting sync.WaitGroup
}

// host is a node's host.
type host struct {
	*linktun.Host
	name   string
	access links.Access
	output string
	ended  chan struct{}
}

// access is the link of a host: the distance to the middle in both directions, and packets are lost on the way down.
func access(region int, rate int64, loss float64) links.Access {
	r := links.Rules{Rate: rate, Delay: distance(region), Queue: queue(rate)}
	down := r
	down.Loss = loss
	return links.Access{Up: links.Direction{Rules: r}, Down: links.Direction{Rules: down}}
}

// queue is what waits before a link: a tenth of a second, but 64 KiB at least.
func queue(rate int64) int { return max(64<<10, int(rate/80)) }

// startNetwork starts relays of a program, and returns when the directory has them all and each relay knows it.
func startNetwork(ctx context.Context, run *Run, l *Layout, relays Program, seed uint64, dir string) (n *network, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	n = &network{run: run, relays: relays, net: links.NewNet(seed), dir: dir, nodes: nodes{layout: l, chive: run.Chive, tor: run.Tor,
		fingerprints: map[string]string{}, file: filepath.Join(dir, "network.toml"), empty: filepath.Join(dir, "empty.toml")}}
	n.ctx, n.fail = context.WithCancelCause(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
			n = nil
		}
	}()
	ctx, cancel := context.WithTimeout(n.ctx, startTime)
	defer cancel()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return n, fault.Wrap(fault.Local, err)
	}
	if err := os.WriteFile(n.empty, nil, 0o600); err != nil {
		return n, fault.Wrap(fault.Local, err)
	}
	published, err := n.startAuthority()
	if err != nil {
		return n, err
	}
	target := netip.AddrPortFrom(targetAddr, webPort).String()
	if err := n.start("target", targetAddr, links.Access{}, append(append([]string{}, run.Self...), "target", target)); err != nil {
		return n, err
	}
	for i, r := range l.Relays {
		if err := n.startRelay(i, r); err != nil {
			return n, err
		}
	}
	select {
	case c := <-published:
		for _, r := range c.Routers {
			n.fingerprints[r.Nickname] = r.RSA.String()
		}
	case <-ctx.Done():
		return n, n.why(ctx, "no consensus")
	}
	return n, n.awaitCaches(ctx)
}

// why prefers the reason of a node that has ended.
func (n *network) why(ctx context.Context, what string) error {
	if cause := context.Cause(n.ctx); cause != nil {
		return fault.New(fault.KindOf(cause), "%s: %w", what, cause)
	}
	return fault.New(fault.Timeout, "%s: %w", what, context.Cause(ctx))
}

// startAuthority runs the authority in this process, on a host whose link takes no time.
func (n *network) startAuthority() (<-chan *netdoc.Consensus, error) {
	var err error
	if n.own, err = linkstack.Attach(n.net, authorityAddr, links.Access{}); err != nil {
		return nil, err
	}
	published := make(chan *netdoc.Consensus, 1)
	d := new(netdir.Network)
	c := authority.Config{
		Nickname: "authority", Contact: "emulated", Dir: n.dirOf("authority"), Log: slog.New(slog.DiscardHandler), Network: d,
		ORPort: netip.AddrPortFrom(authorityAddr, orPort), DirPort: netip.AddrPortFrom(authorityAddr, dirPort), Dial: n.own.Dial,
		WaitForRelays: len(n.layout.Relays),
		Schedule: authority.Schedule{InitialInterval: firstRound, InitialVoteDelay: firstRound / 4, InitialDistDelay: firstRound / 4,
			Interval: laterRound, VoteDelay: roundDelay, DistDelay: roundDelay, IntervalsValid: 12},
		Flags:  authority.TestingFlags(),
		Accept: authority.AcceptConfig{AllowPrivateAddresses: true, AssumeReachable: true},
		Published: func(c *netdoc.Consensus) {
			if c.Flavor == netdoc.FlavorMicrodesc {
				select {
				case published <- c:
				default: // a later one
				}
			}
		},
	}
	if c.ORListener, err = n.own.Listen(orPort); err != nil {
		return nil, err
	}
	if c.DirListener, err = n.own.Listen(dirPort); err != nil {
		return nil, err
	}
	identity, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	if c.Keys, err = authority.Certify(rand.Reader, identity, c.DirPort, time.Now(), 12); err != nil {
		return nil, err
	}
	if err := c.Keys.AddRelayIdentity(rand.Reader); err != nil {
		return nil, err
	}
	a := netdir.Authority{Nickname: c.Nickname, V3Ident: c.Keys.Cert.Identity, RSA: netdoc.RSADigest(&c.Keys.RSA.PublicKey),
		Ed: c.Keys.Ed.Public(), ORPorts: []netip.AddrPort{c.ORPort}, DirPort: c.DirPort}
	*d = *n.takeAuthority(a)
	text, err := netfile.Format(d)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(n.file, text, 0o600); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	auth, err := authority.New(c)
	if err != nil {
		return nil, err
	}
	n.voting.Go(panics.Contain(nil, n.fail, func() {
		if err := auth.Run(n.ctx); err != nil && n.ctx.Err() == nil {
			n.fail(err)
		}
	}))
	return published, nil
}

// startRelay starts a relay.
func (n *network) startRelay(i int, r Relay) error {
	dir := n.dirOf(r.Name)
	var command []string
	if n.relays == Chive {
		command = n.chiveRelay(dir, i, r)
	} else {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fault.Wrap(fault.Local, err)
		}
		file := dir + ".torrc"
		if err := os.WriteFile(file, lines(n.torRelay(dir, i, r)), 0o600); err != nil {
			return fault.Wrap(fault.Local, err)
		}
		command = n.torCommand(file)
	}
	return n.start(r.Name, relayAddr(i), access(r.Region, r.Rate, 0), command)
}

// start starts a node that ends with the network. That it ends earlier is an error of all.
func (n *network) start(name string, addr netip.Addr, a links.Access, command []string) error {
	h := &host{name: name, access: a, output: n.dirOf(name) + ".out", ended: make(chan struct{})}
	out, err := os.OpenFile(h.output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	defer out.Close()
	if h.Host, err = linktun.Attach(n.net, addr, a, linktun.Command{Args: command, Output: out, Congestion: n.run.Congestion}); err != nil {
		return fault.New(fault.KindOf(err), "%s: %w", name, err)
	}
	n.hosts = append(n.hosts, h)
	go panics.Contain(nil, n.fail, func() {
		defer close(h.ended)
		code, err := h.Run(n.ctx)
		if n.ctx.Err() == nil {
			n.fail(fault.New(fault.Local, "%s has ended (%d, %v): %s", name, code, err, lastWords(h.output)))
		}
	})()
	return nil
}

// lastWords is the end of a node's output.
func lastWords(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-1000):]))
}

// awaitCaches waits until each relay of C tor has the whole directory, which clients ask for at their guards. A relay
// that looked for it before it existed asks again only much later, or when it is told to read its settings. Those of
// Chive's ask again at once.
func (n *network) awaitCaches(ctx context.Context) error {
	if n.relays != Tor {
		return nil
	}
	left := n.hosts[1:] // without the server
	told := time.Time{}
	for {
		var without []*host
		for _, h := range left {
			if has, err := n.hasDirectory(h.name); err != nil {
				return err
			} else if !has {
				without = append(without, h)
			}
		}
		if left = without; len(left) == 0 {
			return nil
		}
		if time.Since(told) > time.Second {
			told = time.Now()
			for _, h := range left {
				h.Signal(syscall.SIGHUP)
			}
		}
		select {
		case <-ctx.Done():
			return n.why(ctx, fmt.Sprintf("%d relays do not have the directory", len(left)))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// hasDirectory reads of what a relay of C tor has stored.
func (n *network) hasDirectory(name string) (bool, error) {
	have := 0
	for _, file := range []string{"cached-microdescs", "cached-microdescs.new"} {
		b, err := os.ReadFile(filepath.Join(n.dirOf(name), file))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, fault.Wrap(fault.Local, err)
		}
		have += bytes.Count(b, []byte("\nonion-key\n")) + bytes.Count(b, []byte("\nntor-onion-key "))
	}
	return have >= len(n.layout.Relays), nil
}

// dirOf is where a node keeps its files.
func (n *network) dirOf(name string) string { return filepath.Join(n.dir, name) }

// setLoss gives all links the loss that packets between two hosts have.
func (n *network) setLoss(loss float64, more []*host) error {
	for _, h := range append(append([]*host{}, n.hosts...), more...) {
		r := h.access.Down.Rules
		r.Loss = loss
		if err := h.Port().Down().Change(r); err != nil {
			return err
		}
	}
	return nil
}

// close ends all nodes, and removes their files.
func (n *network) close() error {
	n.fail(fault.New(fault.Closed, "the network is closed"))
	for _, h := range n.hosts {
		h.Close()
		<-h.ended
	}
	n.voting.Wait()
	if n.own != nil {
		n.own.Close()
	}
	n.net.Close()
	return fault.Wrap(fault.Local, os.RemoveAll(n.dir))
}
