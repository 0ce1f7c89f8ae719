package scale

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
)

// peer is the relay under load.
type peer struct {
	name string
	pid  int
	or   netip.AddrPort
	dir  netip.AddrPort // of an authority
	id   ident.RelayID

	ntor  ident.X25519Key // learned from its descriptor, for circuits that lead on to it
	proto protover.Set
}

// dial connects to the relay from an address.
func (p *peer) dial(ctx context.Context, from netip.Addr) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}}
	conn, err := d.DialContext(ctx, "tcp", p.or.String())
	return conn, fault.Wrap(fault.Network, err)
}

var errOver = fault.New(fault.Closed, "the load is over")

// load is what clients hold open at a relay.
type load struct {
	to    peer
	env   *circuit.Env
	links []*channel.Channel
	circs []*circuit.Circuit
	mu    sync.Mutex // guards circs while they are built
}

func newLoad(to peer) *load {
	return &load{to: to, env: &circuit.Env{Log: slog.New(slog.DiscardHandler), Now: time.Now}}
}

// source is the address of the i-th link: another for every few.
func source(i int) netip.Addr {
	n := i / perAddress
	return netip.AddrFrom4([4]byte{127, byte(10 + n>>16), byte(n >> 8), byte(n)})
}

// open opens n links. It returns the first error when one of them fails.
func (l *load) open(ctx context.Context, n int) error {
	l.links = make([]*channel.Channel, n)
	err := each(ctx, n, func(ctx context.Context, i int) (err error) {
		l.links[i], err = l.link(ctx, source(i))
		return err
	})
	if err != nil {
		l.close()
	}
	return err
}

func (l *load) link(ctx context.Context, from netip.Addr) (*channel.Channel, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	conn, err := l.to.dial(ctx, from)
	if err != nil {
		return nil, err
	}
	up, err := channel.Connect(ctx, conn, l.to.id, l.to.or, &channel.LinkConfig{Log: l.env.Log})
	if err != nil {
		return nil, err
	}
	return channel.Start(up, &channel.Config{Log: l.env.Log, Now: time.Now}), nil
}

// build builds n circuits, on all links in turns, and returns how many the relay refused.
func (l *load) build(ctx context.Context, n int) (refused int, err error) {
	target := linkspec.Target{RelayID: l.to.id, Addrs: []netip.AddrPort{l.to.or}}
	var lost atomic.Int64
	err = each(ctx, len(l.links), func(ctx context.Context, i int) error {
		mine := n / len(l.links)
		if i < n%len(l.links) {
			mine++
		}
		for range mine {
			one, cancel := context.WithTimeout(ctx, setupTime)
			c, err := circuit.Create(one, l.env, l.links[i], target, circuit.HopOptions{Handshake: handshake.Fast})
			cancel()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				lost.Add(1)
				continue
			}
			l.mu.Lock()
			l.circs = append(l.circs, c)
			l.mu.Unlock()
		}
		return nil
	})
	return int(lost.Load()), err
}

// gone counts what the relay has closed.
func (l *load) gone() (links, circuits int) {
	for _, ch := range l.links {
		if ch.Err() != nil {
			links++
		}
	}
	for _, c := range l.circs {
		if c.Err() != nil {
			circuits++
		}
	}
	return links, circuits
}

// close closes everything and waits for it.
func (l *load) close() {
	for _, ch := range l.links {
		if ch != nil {
			ch.Close(errOver)
		}
	}
	for _, ch := range l.links {
		if ch != nil {
			<-ch.Done()
		}
	}
	l.links, l.circs = nil, nil
}

// each runs f for 0 to n-1, a few at a time, until one fails.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(atATime, n) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, errOver) {
		return err
	}
	return nil
}
