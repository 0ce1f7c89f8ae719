package relay

import (
	"context"
	"crypto/rand"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hibernate"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/pt"
	"github.com/chivenet/chive/internal/transport"
)

// extTimeout is how long a transport may take to send the address of its client.
const extTimeout = 10 * time.Second

// cookieFile has the cookie of the Extended ORPort, in the data directory; the
// name is C tor's.
const cookieFile = "extended_orport_auth_cookie"

// transports are a bridge's pluggable transports: those in this process, and processes that
// accept connections of clients and forward them to the Extended ORPort.
type transports struct {
	r      *Relay
	inside []*inside
	ln     net.Listener // the Extended ORPort; nil: there is no process
	cookie []byte

	once  sync.Once              // closes ready
	mu    sync.Mutex             // guards what follows, and ln once the relay runs
	procs map[string]*pt.Process // by transport; nil before Run
	ready chan struct{}          // closed when procs is set
}

// checkTransports reports mistakes in the transports' configuration.
func (c *Config) checkTransports() error {
	const forBridges = "transports are for bridges: a relay that is listed gains nothing from them"
	if len(c.Transports) > 0 && !c.Bridge {
		return options.Wrong("ServerTransportPlugins", forBridges)
	}
	if len(c.Inside) > 0 && !c.Bridge {
		return options.Wrong("Transports", forBridges)
	}
	names := map[string]bool{}
	for n := range c.Inside {
		names[n] = true
	}
	for _, t := range c.Transports {
		if t.Path == "" {
			return options.Wrong("ServerTransportPlugins", "a server transport is a program to run (exec)")
		}
		for _, n := range t.Transports {
			if names[n] {
				return options.Wrong("ServerTransportPlugins", "two of them offer %s", n)
			}
			names[n] = true
		}
	}
	for n := range c.TransportListen {
		if !names[n] {
			return options.Wrong("ServerTransportListen", "no plugin offers the transport %q, and the bridge has none of that name", n)
		}
	}
	for n := range c.TransportOptions {
		if !names[n] {
			return options.Wrong("ServerTransportOptions", "no plugin offers the transport %q, and the bridge has none of that name", n)
		}
	}
	return nil
}

// openTransports opens the Extended ORPort on loopback, so that only processes of
// this machine can reach it, and makes its cookie.
func openTransports(r *Relay) (*transports, error) {
	if len(r.cfg.Transports) == 0 && len(r.cfg.Inside) == 0 {
		return nil, nil
	}
	t := &transports{r: r, inside: newInside(r), ready: make(chan struct{})}
	if len(r.cfg.Transports) == 0 {
		return t, nil
	}
	var err error
	if t.cookie, err = pt.NewExtCookie(rand.Reader, filepath.Join(r.cfg.DataDir, cookieFile)); err != nil {
		return nil, err
	}
	if t.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fault.New(fault.Local, "Extended ORPort: %w", err)
	}
	return t, nil
}

// run serves all transports until ctx is done.
func (t *transports) run(ctx context.Context) {
	ports := loadPorts(t.r.cfg.DataDir, t.r.log)
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, d := range t.inside {
		wg.Go(panics.Keep(t.r.log, rest(ctx), func() { d.run(ctx, ports) }))
	}
	if len(t.r.cfg.Transports) == 0 {
		t.once.Do(func() { close(t.ready) })
		return
	}
	t.launch(ctx, ports)
}

// launch runs the processes and serves them until ctx is done. If it ran before, it opens
// another Extended ORPort.
func (t *transports) launch(ctx context.Context, ports *chosenPorts) {
	ln, err := t.listener()
	if err != nil {
		t.r.log.Error("the bridge's transports cannot be used", "err", err)
		return
	}
	c := &t.r.cfg
	procs := map[string]*pt.Process{}
	var all []*pt.Process
	for _, l := range c.Transports {
		p := pt.Launch(pt.ProcessConfig{
			Path: l.Path, Args: l.Args, Transports: l.Transports, Log: t.r.log,
			StateDir: c.transportDir(), Outbound: c.Outbound.PT,
			Server: &pt.Server{
				Bind: only(ports.bind(c.TransportListen), l.Transports), Chose: ports.chose, Options: only(c.TransportOptions, l.Transports),
				ORPort: t.r.localORPort(), ExtORPort: netaddr.OfPort(ln.Addr()), CookieFile: filepath.Join(c.DataDir, cookieFile),
			},
		})
		all = append(all, p)
		for _, n := range l.Transports {
			procs[n] = p
		}
	}
	t.mu.Lock()
	t.procs = procs
	t.mu.Unlock()
	t.once.Do(func() { close(t.ready) })
	t.r.acceptLoop(ctx, ln, t.welcome)
	for _, p := range all {
		p.Close()
	}
}

// listener returns the Extended ORPort, which is another one each time but the first.
func (t *transports) listener() (net.Listener, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.procs == nil {
		return t.ln, nil
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fault.New(fault.Local, "Extended ORPort: %w", err)
	}
	t.ln = ln
	return ln, nil
}

// localORPort is where programs of this machine reach the ORPort. Transports that do not
// speak the protocol of the Extended ORPort connect to it.
func (r *Relay) localORPort() netip.AddrPort {
	a := netaddr.OfPort(r.listeners[0].Addr())
	switch {
	case !a.Addr().IsUnspecified():
		return a
	case tcpFor(r.cfg.Listen[0], r.cfg.Listen) == "tcp6":
		return netip.AddrPortFrom(netip.IPv6Loopback(), a.Port())
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), a.Port()) // Go's listener at [::] takes IPv4 too
}

// only returns the entries of m for some names.
func only[V any](m map[string]V, names []string) map[string]V {
	out := map[string]V{}
	for _, n := range names {
		if v, ok := m[n]; ok {
			out[n] = v
		}
	}
	return out
}

func (t *transports) close() {
	if t != nil && t.cookie != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.ln.Close()
	}
}

// welcome does the handshake of the Extended ORPort, which tells the client's
// address and transport, and then continues like the ORPort.
func (t *transports) welcome(ctx context.Context, conn net.Conn) {
	r := t.r
	if r.draining.Load() || r.resting.Load() || !r.gate.enterHandshake(conn, netip.Addr{}, false) {
		r.stats.ConnsRefused.Add(1)
		conn.Close()
		return
	}
	refuse := func() {
		conn.Close()
		r.gate.leaveHandshake(conn)
		r.gate.leave()
	}
	stop := context.AfterFunc(ctx, panics.Contain(r.log, nil, func() { conn.Close() }))
	defer stop()
	conn.SetDeadline(time.Now().Add(extTimeout))
	peer, err := t.accept(conn)
	if err != nil {
		r.stats.HandshakesFailed.Add(1)
		r.log.Info("a transport's connection is refused", "err", err)
		refuse()
		return
	}
	conn.SetDeadline(time.Time{})
	from := peer.User.Addr()
	c := &gatedConn{Conn: conn, ticket: ticket{gate: r.gate}, from: transport.Unknown}
	if from.IsValid() {
		if !r.dos.connect(from) {
			r.stats.ConnsRefused.Add(1)
			refuse()
			return
		}
		c.from = net.TCPAddrFromAddrPort(peer.User)
		c.closed = func() { r.dos.disconnect(from) }
	}
	stop()
	r.shake(ctx, c)
}

// accept does the handshake of the Extended ORPort. A panic in it becomes an
// error.
func (t *transports) accept(conn net.Conn) (peer pt.ExtPeer, err error) {
	defer panics.Recover(t.r.log, func(e error) { err = e })
	return pt.AcceptExt(conn, rand.Reader, t.cookie)
}

// BridgeLines waits until the bridge's transports listen, and returns the lines
// for clients: one for each transport, or one for the ORPort if there is no
// transport. The relay must run, with Bridge set.
func (r *Relay) BridgeLines(ctx context.Context) ([]pt.BridgeLine, error) {
	own, _ := first4(r.Addrs())
	if r.transports == nil {
		return []pt.BridgeLine{{Addr: own, Fingerprint: r.keys.ID.RSA}}, nil
	}
	switch state, changed := r.acct.now(); state {
	case hibernate.Dormant:
		return nil, fault.New(fault.Resource, "bridge lines: the bridge is dormant, and its transports do not run")
	default:
		select {
		case <-r.transports.ready:
		case <-changed:
			return r.BridgeLines(ctx)
		case <-ctx.Done():
			return nil, fault.Ended(ctx, "bridge lines: %w", context.Cause(ctx))
		}
	}
	var out []pt.BridgeLine
	add := func(name string, m pt.Method) {
		addr := m.Addr
		if addr.Addr().IsUnspecified() {
			addr = netip.AddrPortFrom(own.Addr(), addr.Port())
		}
		out = append(out, pt.BridgeLine{Transport: name, Addr: addr, Fingerprint: r.keys.ID.RSA, Args: m.Args})
	}
	for _, l := range r.cfg.Transports {
		for _, n := range l.Transports {
			r.transports.mu.Lock()
			p := r.transports.procs[n]
			r.transports.mu.Unlock()
			m, err := p.Method(ctx, n)
			if err != nil {
				return nil, err
			}
			add(n, m)
		}
	}
	for _, d := range r.transports.inside {
		m, err := d.Method(ctx)
		if err != nil {
			return nil, err
		}
		add(d.name, m)
	}
	return out, nil
}
