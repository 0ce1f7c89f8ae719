package client

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/transport"
)

func bridgeTarget(g guard.Candidate) linkspec.Target {
	return linkspec.Target{RelayID: g.ID, Addrs: g.Addrs, Ntor: g.Ntor, Proto: g.Proto}
}

// await waits until a bridge has a descriptor, before which nothing is asked for. If that comes only now, it waits for the client's next
// second, too, in which C tor's first request begins. False: ctx has ended.
func (bs *bridges) await(ctx context.Context) bool {
	waited := false
	for {
		have, next := bs.answered()
		if have && (!waited || bs.c.cfg.Fast) {
			return ctx.Err() == nil
		}
		if have {
			next = bs.c.seconds.wait()
		}
		waited = !have
		select {
		case <-next:
		case <-ctx.Done():
			return false
		}
	}
}

// answered reports whether a bridge has a descriptor, and returns what is closed when that may have changed.
func (bs *bridges) answered() (have bool, changed <-chan struct{}) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	return slices.ContainsFunc(bs.all, func(b *bridge) bool { return b.desc != nil }), bs.changed
}

// cache picks a bridge to ask for directory documents, as soon as there is one
// that has a descriptor.
func (bs *bridges) cache(ctx context.Context, avoid []ident.RelayID) (linkspec.Target, *guard.Use, error) {
	for {
		bs.mu.Lock()
		have := map[ident.RSAID]bool{}
		var problem error
		for _, b := range bs.all {
			if b.desc != nil {
				have[b.id.RSA] = true
			} else if problem == nil {
				problem = b.err
			}
		}
		changed := bs.changed
		bs.mu.Unlock()
		others := maps.Clone(have)
		for _, id := range avoid {
			delete(others, id.RSA)
		}
		if len(others) > 0 {
			have = others
		}
		if len(have) > 0 {
			use, err := bs.c.guards.Pick(guard.Request{
				Purpose: guard.Directory1Hop,
				Allow:   func(g guard.Candidate) bool { return have[g.ID.RSA] },
			}, time.Now())
			if err != nil {
				return linkspec.Target{}, nil, err
			}
			return bridgeTarget(use.Guard()), use, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if problem == nil {
				problem = context.Cause(ctx)
			}
			return linkspec.Target{}, nil, fault.New(fault.Network, "no bridge has answered yet: %w", problem)
		}
	}
}

// dial connects to a bridge, and to nothing else.
func (bs *bridges) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	w := bs.wayTo(addr)
	if w == nil {
		return nil, fault.New(fault.Refused, "only bridges may be connected to, and this is none")
	}
	conn, err := bs.dialBy(ctx, w)
	if err == nil && !bs.opening(conn, w) {
		_ = conn.Close()
		err = errBridgeRemoved
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

func (bs *bridges) dialBy(ctx context.Context, w *way) (net.Conn, error) {
	switch {
	case w.t == nil:
		return bs.c.connect(ctx, w.line.Addr)
	case w.inside:
		return transport.Dial(ctx, bs.c.log, w.t, bs.c.dialInside, w.line.Addr, w.line.Args)
	}
	return w.t.Dial(ctx, nil, w.line.Addr, w.line.Args) // the program's connections are its own
}

// few reports whether there are too few bridges to have one for each leg of a
// conflux set (C tor draws the line at the same number).
func (bs *bridges) few() bool {
	if bs == nil {
		return false
	}
	bs.mu.Lock()
	defer bs.mu.Unlock()
	return len(bs.all) <= 1
}

// BridgeInfo is one bridge's state.
type BridgeInfo struct {
	Transport string
	ID        ident.RelayID // zero while it is unknown
	Nickname  string        // empty before the descriptor
	Usable    bool          // its descriptor has arrived
	Problem   string        // why there is no newer one
}

func (bs *bridges) status() []BridgeInfo {
	if bs == nil {
		return nil
	}
	bs.mu.Lock()
	defer bs.mu.Unlock()
	var out []BridgeInfo
	for _, b := range bs.all {
		i := BridgeInfo{Transport: b.line.Transport, ID: b.id, Usable: b.desc != nil}
		if b.desc != nil {
			i.Nickname = b.desc.Nickname
		}
		if b.err != nil {
			i.Problem = b.err.Error()
		}
		out = append(out, i)
	}
	return out
}
