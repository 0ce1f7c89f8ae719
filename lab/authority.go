package lab

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/authority"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/netfile"
)

// Times of voting. The first round begins when the last relay has come, and ends when all authorities have voted and
// signed: only if one is late does it take firstRound, or another one follows, which takes as long.
const (
	firstRound      = 2 * time.Second
	firstLargeRound = 12 * time.Second
	roundDelay      = 2 * time.Second // for votes, and for signatures: C tor's least
	// intervalsValid outlasts some rounds without a result, as a busy machine has them,
	// and still has C tor's clients, which go by it, fetch the next consensus soon.
	intervalsValid = 12
)

// periodParams tells how long a time period of onion services is: 24 rounds, which is
// what C tor takes in a network for tests. Arti must be told; nobody can be told of
// less than five minutes.
func periodParams(interval time.Duration) netdoc.Params {
	minutes := int32(24 * interval / time.Minute)
	if minutes < hscrypto.MinPeriod || minutes > hscrypto.MaxPeriod {
		return nil
	}
	return netdoc.Params{{Name: "hsdir_interval", Value: minutes}}
}

// Sizes of the lab's authorities' keys. A real authority's identity key is larger: rsakeys has no primes for that.
const (
	identityBits = 2048
	signingBits  = 2048
)

// startChive makes a network whose authorities are Chive's.
func (nw *Network) startChive(ctx context.Context) error {
	processes := nw.opts.Processes
	description := &netdir.Network{Name: "lab", Testing: netdir.Testing{AllowPrivateAddresses: true, VotingInterval: nw.opts.VotingInterval}}
	configs := make([]authority.Config, nw.opts.Authorities)
	nodes := make([]*Node, len(configs))
	for i := range configs {
		nodes[i] = &Node{Name: fmt.Sprintf("authority%d", i), Role: Authority, Program: "chive", network: nw}
	}
	published := make(chan struct{}, len(configs))
	err := nw.stage("authorities", func() error {
		if err := eachIndex(nodes, func(i int, n *Node) error { return n.prepareAuthority(&configs[i]) }); err != nil {
			return err
		}
		for i := range configs {
			c := &configs[i]
			a := netdir.Authority{Nickname: c.Nickname, V3Ident: c.Keys.Cert.Identity, RSA: netdoc.RSADigest(&c.Keys.RSA.PublicKey),
				Ed: c.Keys.Ed.Public(), ORPorts: []netip.AddrPort{c.ORPort}, DirPort: c.DirPort}
			description.Authorities = append(description.Authorities, a)
			nodes[i].Fingerprint, nodes[i].ORPort, nodes[i].rsa = a.RSA.String(), c.ORPort.String(), a.RSA
			c.Network = description
			serves := sync.OnceFunc(func() { published <- struct{}{} })
			c.Published = func(consensus *netdoc.Consensus) {
				if consensus.Flavor == netdoc.FlavorMicrodesc {
					serves()
				}
			}
			c.TookOver = serves // it could not take part in the first round, and the next may be ten minutes later
		}
		text, err := netfile.Format(description)
		if err != nil {
			return err
		}
		if err := nw.describe(text); err != nil {
			return err
		}
		nw.enlistFirst(nodes...)
		nw.onClose(func() error { return each(nodes, (*Node).Stop) })
		return eachIndex(nodes, func(i int, n *Node) error {
			if processes {
				return n.startAuthorityChild(ctx, configs[i])
			}
			return n.startAuthority(ctx, configs[i])
		})
	})
	if err != nil {
		return err
	}
	if err := nw.stage("relays", func() error { return nw.startRelays(ctx) }); err != nil {
		return err
	}
	joinTor := func() error { return nw.stage("C tor", func() error { return nw.addTor(ctx, description) }) }
	if nw.opts.CtorRelays+nw.opts.CtorExits > 0 { // the first vote waits for them
		if err := joinTor(); err != nil {
			return err
		}
	}
	err = nw.stage("consensus", func() error {
		if processes {
			return eachIndex(nodes, func(i int, _ *Node) error { return awaitPublished(ctx, configs[i].DirPort) })
		}
		// A consensus of the majority is valid for all.
		for range len(configs)/2 + 1 {
			select {
			case <-published:
			case <-ctx.Done():
				return fault.New(fault.Timeout, "the authorities do not agree: %w", context.Cause(ctx))
			}
		}
		return nil
	})
	if err != nil || nw.opts.CtorRelays+nw.opts.CtorExits > 0 || nw.opts.CtorClients == 0 {
		return err
	}
	// A client that finds no consensus asks again only much later.
	return joinTor()
}

// prepareAuthority makes an authority's keys and opens its ports.
func (n *Node) prepareAuthority(c *authority.Config) error {
	opts := &n.network.opts
	first := firstRound
	if opts.large() {
		first = firstLargeRound
	}
	share := first / 2
	*c = authority.Config{
		Nickname: n.Name, Contact: "lab", Dir: filepath.Join(n.dir(), "state"), Log: n.log(),
		WaitForRelays: len(n.network.relays()) + opts.CtorRelays + opts.CtorExits,
		Schedule: authority.Schedule{
			InitialInterval: first, InitialVoteDelay: share, InitialDistDelay: share, Prompt: true,
			Interval: opts.VotingInterval, VoteDelay: roundDelay, DistDelay: roundDelay, IntervalsValid: intervalsValid,
		},
		Params: periodParams(opts.VotingInterval),
		Flags:  authority.TestingFlags(),
		Accept: authority.AcceptConfig{AllowPrivateAddresses: true, AssumeReachable: true},
	}
	if err := n.openPorts(c); err != nil {
		return err
	}
	if h, err := n.network.hostOf(n.Name); err != nil {
		return err
	} else if h != nil {
		c.Dial = h.Dial
	}
	c.NewRSA = n.network.keys.Key
	var err error
	c.Keys, err = n.network.authorityKeys(c.DirPort)
	return err
}

// authorityKeys makes an authority's keys for some months.
func (nw *Network) authorityKeys(address netip.AddrPort) (*authority.Keys, error) {
	identity, err := nw.keys.Key(identityBits)
	if err != nil {
		return nil, err
	}
	k := &authority.Keys{}
	if k.Signing, err = nw.keys.Key(signingBits); err != nil {
		return nil, err
	}
	now := time.Now().UTC().Truncate(time.Second)
	if k.Cert, err = netdoc.MakeAuthCert(rand.Reader, identity, k.Signing, address, now, now.AddDate(1, 0, 0)); err != nil {
		return nil, err
	}
	if k.RSA, err = nw.keys.Key(cert.RSAIdentityBits); err != nil {
		return nil, err
	}
	k.Ed, err = cert.GenerateExpanded(rand.Reader)
	return k, err
}

// openPorts opens an authority's ports. For an authority in its own process it
// only chooses them, and the process opens them.
func (n *Node) openPorts(c *authority.Config) error {
	for _, l := range []struct {
		ln   *net.Listener
		addr *netip.AddrPort
	}{{&c.ORListener, &c.ORPort}, {&c.DirListener, &c.DirPort}} {
		if n.network.opts.Processes {
			port, err := n.network.leases.Take(loopback)
			if err != nil {
				return err
			}
			*l.addr = netip.AddrPortFrom(loopback, port)
			continue
		}
		ln, err := n.openPort()
		if err != nil {
			return err
		}
		n.network.onClose(func() error { ln.Close(); return nil }) // the authority has closed it, if it ran
		*l.ln, *l.addr = ln, ln.Addr().(*net.TCPAddr).AddrPort()
	}
	return nil
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// startAuthority runs an authority in this process.
func (n *Node) startAuthority(ctx context.Context, c authority.Config) error {
	a, err := authority.New(c)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- a.Run(running) }()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.auth, n.close = a, func() error { cancel(); return <-done }
	return nil
}

// eachIndex is each with the node's index.
func eachIndex(nodes []*Node, f func(int, *Node) error) error {
	at := map[*Node]int{}
	for i, n := range nodes {
		at[n] = i
	}
	return each(nodes, func(n *Node) error { return f(at[n], n) })
}
