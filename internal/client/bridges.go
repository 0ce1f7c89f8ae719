package client

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/pt"
	"github.com/chivenet/chive/internal/transport"
)

// bridges stand for guards and directory caches: with them, the client dials
// nothing else. Each is asked for its own descriptor over a circuit of one hop,
// and can carry traffic once that has arrived.
type bridges struct {
	c     *Client
	state string // the directory of the transports' state
	temp  string // the same, of a client that keeps nothing

	setting sync.Mutex // held while the bridges change; guards procs
	procs   []*proc

	saving sync.Mutex // held while the descriptors are written; taken before mu

	mu      sync.Mutex // guards the fields below, and the bridges' fields
	all     []*bridge
	byAddr  map[netip.AddrPort]*way
	changed chan struct{}    // closed when a descriptor has arrived, or the bridges have changed
	dialled map[ends]dialled // until the link is open
}

// proc is a transport's process.
type proc struct {
	line  pt.TransportLine
	names []string // those of its transports that bridges need
	*pt.Process
}

// way is how one address of a bridge is reached.
type way struct {
	line   pt.BridgeLine
	t      transport.Client // nil: no transport
	inside bool             // t is one of Config.Inside
	by     *proc            // whose process t asks; nil: none
	to     pt.Method        // the running proxy that t asks; zero: none
}

// same reports whether two ways lead to the same bridge in the same way.
func (w *way) same(o *way) bool {
	return w.by == o.by && w.inside == o.inside && reflect.DeepEqual(w.line, o.line) && reflect.DeepEqual(w.to, o.to)
}

// bridge is one configured bridge.
type bridge struct {
	line  pt.BridgeLine    // the first one with its fingerprint
	addrs []netip.AddrPort // of all of them
	ctx   context.Context  // ends when the bridge is removed, and with the client
	end   context.CancelFunc

	// Guarded by bridges.mu.
	id   ident.RelayID
	desc *netdoc.RouterDesc
	err  error // why there is no newer descriptor
	// turns says when the bridge is asked, and asking that it is.
	turns  turns
	asking bool
	// recalled: desc is of an earlier run, and the bridge has not confirmed it
	recalled bool
}

// CheckBridges reports mistakes in bridges and transports together. inside are the transports
// that need no line; one with a line is that of the line. proxied says that there is an upstream proxy.
func CheckBridges(lines []pt.BridgeLine, transports []pt.TransportLine, inside map[string]transport.Client, proxied bool) error {
	by := map[string]bool{}
	for _, t := range transports {
		if proxied && t.Path == "" {
			return fault.New(fault.Config, "the transport %s runs already, and cannot be told of the upstream proxy: give its program, with exec", t.Transports[0])
		}
		for _, n := range t.Transports {
			if by[n] {
				return fault.New(fault.Config, "two transport plugins offer %s", n)
			}
			by[n] = true
		}
	}
	addrs := map[netip.AddrPort]bool{}
	type family struct { // of a bridge's addresses: linkspec.Target.Reach takes one of each
		of  ident.RSAID
		six bool
	}
	families := map[family]bool{}
	for _, l := range lines {
		f := family{l.Fingerprint, l.Addr.Addr().Unmap().Is6()}
		switch {
		case l.Transport != "" && !by[l.Transport] && inside[l.Transport] == nil:
			return fault.New(fault.Config, "a bridge needs the transport %s, and no transport plugin offers it", l.Transport)
		case addrs[l.Addr]:
			return fault.New(fault.Config, "two bridges have the same address and port")
		case families[f] && !f.of.IsZero():
			return fault.New(fault.Config, "two bridges have the same fingerprint: a bridge may have one IPv4 address and one IPv6 address")
		}
		addrs[l.Addr], families[f] = true, true
	}
	return nil
}

// newBridges launches the transports that the bridges need.
func newBridges(c *Client) (*bridges, error) {
	if err := CheckBridges(c.cfg.Bridges, c.cfg.Transports, c.cfg.Inside, c.cfg.Upstream != nil); err != nil {
		return nil, err
	}
	bs := &bridges{c: c, state: filepath.Join(c.cfg.Dir, "pt_state"), changed: make(chan struct{}), dialled: map[ends]dialled{}}
	if c.cfg.Dir == "" {
		var err error
		if bs.temp, err = os.MkdirTemp("", "chive-transports-"); err != nil {
			return nil, fault.New(fault.Local, "transports: %w", err)
		}
		bs.state = bs.temp
	}
	bs.replace(c.cfg.Bridges, bs.setTransports(c.cfg.Bridges, c.cfg.Transports))
	return bs, nil
}

// run begins to keep the descriptors of all bridges.
func (bs *bridges) run() {
	bs.recall()
	bs.publish()
	bs.start(bs.all)
}

func (bs *bridges) close() error {
	bs.setting.Lock()
	defer bs.setting.Unlock()
	for _, p := range bs.procs {
		p.Close()
	}
	if bs.temp == "" {
		return nil
	}
	return os.RemoveAll(bs.temp)
}

// keep fetches one bridge's descriptor, again and again, until the bridge is removed.
func (bs *bridges) keep(b *bridge) {
	c := bs.c
	for bs.turn(b) {
		began := time.Now()
		err := bs.refresh(b)
		if b.ctx.Err() != nil {
			return
		}
		next := bs.asked(b, err, began)
		if err != nil {
			bs.disown(b, err)
			c.log.Warn("a bridge gives no descriptor", "transport", b.line.Transport, "bridge", b.line.Fingerprint, "again_in", time.Until(next).Round(time.Second), "err", err)
			c.problem(err)
		}
	}
}

// refresh asks a bridge for its own descriptor.
func (bs *bridges) refresh(b *bridge) error {
	c := bs.c
	ctx, cancel := context.WithTimeoutCause(b.ctx, bridgeTimeout, errBuildTimeout)
	defer cancel()
	id := bs.begin(b)
	defer bs.end(b)
	if id.RSA.IsZero() {
		ch, err := c.chans.Discover(ctx, b.line.Addr)
		if err != nil {
			return fault.New(fault.KindOf(err), "bridge: %w", err)
		}
		id = ch.Peer()
		if err := bs.identify(b, id); err != nil {
			return err
		}
	}
	use, err := c.guards.PickBridge(id.RSA, time.Now())
	if err != nil {
		return err
	}
	circ, err := c.caches.get(ctx, bridgeTarget(use.Guard()), use)
	if err != nil {
		return fault.New(fault.KindOf(err), "bridge: %w", err)
	}
	s, err := c.caches.begin(ctx, circ, use, dirclient.Descriptors)
	if err != nil {
		return fault.New(fault.KindOf(err), "bridge: %w", err)
	}
	desc, err := dirclient.OwnDescriptor(ctx, s, b.line.Addr)
	if err != nil {
		return fault.New(fault.KindOf(err), "bridge: its descriptor: %w", err)
	}
	peer := circ.Channel().Peer()
	if !desc.RSA.Equal(id.RSA) || !desc.Ed.Equal(peer.Ed) {
		return fault.New(fault.Protocol, "bridge: its descriptor is another relay's")
	}
	if desc.Ntor.IsZero() {
		return fault.New(fault.Protocol, "bridge: its descriptor has no onion key")
	}
	bs.mu.Lock()
	b.desc, b.recalled = desc, false
	b.id = ident.RelayID{RSA: desc.RSA, Ed: desc.Ed}
	bs.mu.Unlock()
	bs.publish()
	bs.tell() // after the guards: the directory may be enough by this bridge
	c.dirs.Retry()
	bs.save()
	if p := c.pool.Load(); p != nil {
		p.Retry()
	}
	return nil
}

// tell wakes those who wait for a bridge's descriptor.
func (bs *bridges) tell() {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	close(bs.changed)
	bs.changed = make(chan struct{})
}

// begin notes that a bridge is being asked, and returns what is known of its identity.
func (bs *bridges) begin(b *bridge) ident.RelayID {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	b.asking = true
	return b.id
}

func (bs *bridges) end(b *bridge) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	b.asking = false
}

// identify notes the identity that a bridge without fingerprint has proved.
func (bs *bridges) identify(b *bridge, id ident.RelayID) error {
	bs.mu.Lock()
	for _, o := range bs.all {
		if o != b && o.id.RSA.Equal(id.RSA) {
			bs.mu.Unlock()
			return fault.New(fault.Config, "two bridge lines lead to the same bridge")
		}
	}
	b.id = id
	bs.mu.Unlock()
	bs.publish()
	return nil
}

// publish tells the guard manager of the bridges that have a known identity.
func (bs *bridges) publish() {
	bs.mu.Lock()
	defer bs.mu.Unlock() // an older list must not replace a newer one
	var list []guard.Candidate
	for _, b := range bs.all {
		if b.id.RSA.IsZero() {
			continue
		}
		g := guard.Candidate{ID: b.id, Addrs: b.addrs, Weight: 1, Bridge: true}
		if d := b.desc; d != nil {
			g.Complete, g.Nickname, g.Ntor, g.Proto = true, d.Nickname, d.Ntor, d.Protocols
		}
		list = append(list, g)
	}
	bs.c.guards.SetBridges(list, time.Now())
}
