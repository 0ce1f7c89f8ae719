package client

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/pt"
)

var errBridgeRemoved = fault.New(fault.Closed, "the bridge was removed from the configuration")

// dialled is a connection whose link is not open yet.
type dialled struct {
	by *way
	at time.Time
}

// ends tells a connection from others that are open, also when the link has wrapped it.
type ends struct{ local, remote string }

func endsOf(c net.Conn) ends { return ends{c.LocalAddr().String(), c.RemoteAddr().String()} }

// maxDialled is how long a connection may take to become a link. Those that failed are forgotten
// after it.
const maxDialled = 5 * time.Minute

// set takes a list of bridges and transports, which CheckBridges has accepted, in the place of
// those that there are. What leads over a bridge that is not among them, or that is reached
// otherwise now, ends: links, and so guards and circuits. The others go on.
func (bs *bridges) set(lines []pt.BridgeLine, transports []pt.TransportLine) {
	bs.setting.Lock()
	defer bs.setting.Unlock()
	began, ended, gone := bs.replace(lines, bs.setTransports(lines, transports))
	for _, b := range ended {
		b.end()
	}
	bs.publish()
	// After all of the above, so that nothing opens a link to a removed bridge again.
	var closed []*channel.Channel
	for _, ch := range bs.c.chans.Channels() {
		if gone[ch.Link().Dialled] {
			ch.Close(errBridgeRemoved)
			closed = append(closed, ch)
		}
	}
	for _, ch := range closed {
		<-ch.Done() // no stream gets one of its circuits any more
	}
	bs.start(began)
}

// start keeps the descriptors of bridges, each until it is removed.
func (bs *bridges) start(began []*bridge) {
	for _, b := range began {
		bs.c.wg.Go(panics.Keep(bs.c.log, func() bool { return b.ctx.Err() == nil && bs.c.rest() }, func() { bs.keep(b) }))
	}
}

// setTransports ends the processes that are needed no more, begins those that are, and returns how
// each transport is reached. The caller has setting.
func (bs *bridges) setTransports(lines []pt.BridgeLine, transports []pt.TransportLine) map[string]way {
	vias := map[string]way{}
	for n, t := range bs.c.cfg.Inside {
		vias[n] = way{t: t, inside: true}
	}
	var keep, begin []*proc
	for _, t := range transports {
		names := slices.DeleteFunc(slices.Clone(t.Transports), func(n string) bool {
			return !slices.ContainsFunc(lines, func(l pt.BridgeLine) bool { return l.Transport == n })
		})
		if len(names) == 0 {
			continue
		}
		if t.Path == "" {
			for _, n := range names {
				vias[n] = way{to: t.Proxy, t: t.Proxy.Transport(bs.c.cfg.Dial)}
			}
			continue
		}
		i := slices.IndexFunc(bs.procs, func(p *proc) bool {
			return p.line.Path == t.Path && slices.Equal(p.line.Args, t.Args) && slices.Equal(p.names, names)
		})
		p := &proc{line: t, names: names}
		if i >= 0 {
			p = bs.procs[i]
			keep = append(keep, p)
		} else {
			begin = append(begin, p)
		}
	}
	for _, p := range bs.procs {
		if !slices.Contains(keep, p) {
			p.Close() // first: a new one may use the same directory
		}
	}
	for _, p := range begin {
		p.Process = pt.Launch(pt.ProcessConfig{Path: p.line.Path, Args: p.line.Args, Transports: p.names, StateDir: filepath.Join(bs.state, p.names[0]), Proxy: bs.c.cfg.Upstream, Outbound: bs.c.cfg.Outbound.PT, Log: bs.c.log})
	}
	bs.procs = append(keep, begin...)
	for _, p := range bs.procs {
		for _, n := range p.names {
			vias[n] = way{by: p, t: p.Transport(n, bs.c.cfg.Dial)}
		}
	}
	return vias
}

// replace makes the new list, in which bridges that stay as they are stay the same. gone are the
// addresses to which the ways of before lead no more.
func (bs *bridges) replace(lines []pt.BridgeLine, vias map[string]way) (began, ended []*bridge, gone map[netip.AddrPort]bool) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	var next []*bridge
	byAddr := map[netip.AddrPort]*way{}
	for _, l := range lines {
		// Lines with one fingerprint are addresses of one bridge.
		i := slices.IndexFunc(next, func(b *bridge) bool { return b.line.Fingerprint == l.Fingerprint && !l.Fingerprint.IsZero() })
		if i < 0 {
			i = len(next)
			next = append(next, &bridge{line: l, id: ident.RelayID{RSA: l.Fingerprint}})
		}
		next[i].addrs = append(next[i].addrs, l.Addr)
		w := vias[l.Transport]
		w.line = l
		byAddr[l.Addr] = &w
		if old := bs.byAddr[l.Addr]; old != nil && old.same(&w) {
			byAddr[l.Addr] = old
		}
	}
	for i, b := range next {
		stays := slices.IndexFunc(bs.all, func(o *bridge) bool {
			return slices.Equal(o.addrs, b.addrs) && !slices.ContainsFunc(b.addrs, func(a netip.AddrPort) bool { return byAddr[a] != bs.byAddr[a] })
		})
		if stays >= 0 {
			next[i] = bs.all[stays]
			continue
		}
		b.ctx, b.end = context.WithCancel(bs.c.ctx)
		began = append(began, b)
	}
	for _, b := range bs.all {
		if !slices.Contains(next, b) {
			ended = append(ended, b)
		}
	}
	gone = map[netip.AddrPort]bool{}
	for a, w := range bs.byAddr {
		if byAddr[a] != w {
			gone[a] = true
		}
	}
	bs.all, bs.byAddr = next, byAddr
	close(bs.changed)
	bs.changed = make(chan struct{})
	return began, ended, gone
}

// wayTo returns how an address is reached; nil: it is no bridge's.
func (bs *bridges) wayTo(addr netip.AddrPort) *way {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	return bs.byAddr[addr]
}

// opening notes a connection of a way, unless the way was removed meanwhile.
func (bs *bridges) opening(c net.Conn, w *way) bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	now := time.Now()
	for o, d := range bs.dialled {
		if now.Sub(d.at) >= maxDialled {
			delete(bs.dialled, o)
		}
	}
	if bs.byAddr[w.line.Addr] != w {
		return false
	}
	bs.dialled[endsOf(c)] = dialled{w, now}
	return true
}

// opened reports whether a link that is open now took a way that is there still.
func (bs *bridges) opened(c net.Conn, addr netip.AddrPort) bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	now := bs.byAddr[addr]
	d, ok := bs.dialled[endsOf(c)]
	delete(bs.dialled, endsOf(c))
	return now != nil && (!ok || now == d.by)
}

// setBridges takes other bridges and transports, if the client has any.
func (c *Client) setBridges(lines []pt.BridgeLine, transports []pt.TransportLine) {
	if c.bridge == nil || len(lines) == 0 || c.ctx.Err() != nil {
		return
	}
	c.bridge.set(lines, transports)
	c.bridge.anew()
	if p := c.pool.Load(); p != nil {
		p.Retry()
	}
}
