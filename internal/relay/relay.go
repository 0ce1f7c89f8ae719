package relay

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/outbound"
	"github.com/chivenet/chive/internal/protover"
)

// Relay is a running relay.
type Relay struct {
	cfg     Config // as New received it
	live    atomic.Pointer[live]
	log     *slog.Logger
	keys    *Keys
	started time.Time

	listeners []net.Listener          // as New opened them; later ones have the same addresses
	opened    atomic.Pointer[portSet] // the ports that are open now; nil: none
	shut      atomic.Bool             // they are closed for good
	env       *circuit.Env
	chanCfg   *channel.Config
	padding   *channel.Padding
	channels  *channel.Manager
	server    *circuit.Server
	exit      *exit.Exit
	origin    func(*channel.Link) cell.EndReason // decides by its link whether a circuit may open streams
	dirs      *dirclient.Client
	cache     *dirCache // nil: this relay does not serve the directory
	dirPort   net.Listener
	publisher *publisher
	dos       *dos
	gate      *gate
	memory    *account.Memory
	full      account.Nearly // the memory is

	transports *transports // nil: none

	flow      atomic.Pointer[flow.Params]
	desc      atomic.Pointer[netdoc.RouterDesc]
	ports     atomic.Pointer[map[netip.AddrPort]bool] // ports of the network itself; nil: unknown, or exits may connect to them
	reachable atomic.Bool
	draining  atomic.Bool
	resting   atomic.Bool  // the accounting lets the relay take nothing new: its ports are closed
	up        atomic.Int64 // since when it serves, in Unix time
	acct      accounting
	cut       chan struct{} // when closed, the relay does not wait for its circuits to end
	cutOnce   sync.Once
	limits    limits
	bandwidth bandwidth
	stats     Stats
}

// New loads or makes the keys and opens the ORPort's listeners; nothing is
// served before Run.
func New(cfg Config) (*Relay, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	now := time.Now()
	keys, err := loadKeys(cfg.keyDir(), now, cfg.OfflineMaster, cfg.NewRSA, cfg.Log)
	if err != nil {
		return nil, err
	}
	outbound.Warn(cfg.Log, cfg.sources()...)
	r := &Relay{cfg: cfg, log: cfg.Log, keys: keys, started: now, cut: make(chan struct{})}
	fam, err := loadFamily(keys.dir, keys.ID.RSA, cfg.Family, cfg.FamilyIDs)
	if err != nil {
		return nil, err
	}
	r.live.Store(&live{cfg: cfg, family: fam})
	r.up.Store(now.Unix())
	r.acct = accounting{path: filepath.Join(cfg.DataDir, accountingFile), log: cfg.Log, seed: keys.ID.RSA[:]}
	r.acct.limitBytes(cfg.Accounting, cfg.Rate, now)
	r.limits.set(cfg.Rate, cfg.Burst, now)
	if err := r.bandwidth.load(cfg.DataDir, now); err != nil {
		r.log.Warn("the saved bandwidth measurements cannot be read: the relay measures again", "err", err)
	}
	if err := r.listen(); err != nil {
		return nil, err
	}
	if r.transports, err = openTransports(r); err != nil {
		r.closeListeners()
		return nil, err
	}
	if err := r.wire(); err != nil {
		r.closeListeners()
		return nil, err
	}
	return r, nil
}

func (r *Relay) listen() error {
	p, err := r.cfg.openPorts(r.cfg.Listen, r.cfg.DirListen)
	if err != nil {
		return err
	}
	r.listeners, r.dirPort = p.or, p.dir
	r.opened.Store(p)
	r.cfg.Advertise = withPorts(r.cfg.Advertise, r.cfg.Listen, r.listeners)
	if r.dirPort != nil {
		r.cfg.DirPort = netaddr.OfPort(r.dirPort.Addr()).Port()
	}
	return nil
}

// withPorts gives addresses without a port that of the first listener of their family, or of
// the first one: a listener at all addresses takes both families.
func withPorts(addrs, listen []netip.AddrPort, listeners []net.Listener) []netip.AddrPort {
	out := slices.Clone(addrs)
	for i, a := range out {
		if a.Port() != 0 {
			continue
		}
		at := max(0, slices.IndexFunc(listen, func(l netip.AddrPort) bool { return l.Addr().Unmap().Is4() == a.Addr().Unmap().Is4() }))
		out[i] = netip.AddrPortFrom(a.Addr(), netaddr.OfPort(listeners[at].Addr()).Port())
	}
	return out
}

func (r *Relay) closeListeners() {
	r.closePorts()
	r.transports.close()
}

// closePorts closes the ORPort and the DirPort for good.
func (r *Relay) closePorts() {
	r.shut.Store(true)
	r.opened.Load().close()
}

// Addrs returns the addresses at which others reach the ORPort.
func (r *Relay) Addrs() []netip.AddrPort {
	if len(r.cfg.Advertise) > 0 {
		return r.cfg.Advertise
	}
	out := make([]netip.AddrPort, len(r.listeners))
	for i, ln := range r.listeners {
		out[i] = netaddr.OfPort(ln.Addr())
	}
	return out
}

// DirPortAddr returns the address of the DirPort's listener; nil: there is none.
func (r *Relay) DirPortAddr() net.Addr {
	if r.dirPort == nil {
		return nil
	}
	return r.dirPort.Addr()
}

// Target returns what a client needs to extend to the relay.
func (r *Relay) Target() linkspec.Target {
	proto, err := protover.Parse(Protocols)
	if err != nil {
		panic(err) // Protocols is a constant, which a test parses
	}
	return linkspec.Target{RelayID: r.keys.ID, Addrs: r.Addrs(), Ntor: r.keys.Onion()[0].Public(), Proto: proto}
}

// Descriptor returns the newest descriptor of the relay; nil before the first.
func (r *Relay) Descriptor() *netdoc.RouterDesc { return r.desc.Load() }

// Directory returns the relay's view of its network; nil before there is one.
func (r *Relay) Directory() *netdir.Directory { return r.dirs.Directory() }

// wire creates the relay's parts and connects them.
func (r *Relay) wire() (err error) {
	proto, err := protover.Parse(Protocols)
	if err != nil {
		return err
	}
	params := flow.DefaultParams()
	r.flow.Store(&params)
	ports := authorityPorts(r.cfg.Network)
	r.ports.Store(&ports)
	r.env = &circuit.Env{Log: r.log, Now: time.Now, Queues: circuit.NewQueueLimits(), Padding: circuit.NewPaddingLimits(r.stats.Channel.CellsOut.Load, &r.stats.Circuit.Padding)}
	r.dos = newDoS(time.Now, r.cfg.Network.Testing.AllowPrivateAddresses, r.cfg.Bridge)
	r.env.Queues.Flooded = r.flooded
	// An exit's connections have a separate share of the file descriptors, so
	// that neither side can use up all of them.
	descriptors := fdLimit()
	sockets := descriptors / 4
	if r.cfg.Exit != nil {
		descriptors -= sockets
	}
	r.gate = newGate(descriptors)
	r.memory = account.New(r.cfg.linkMemory())
	r.publisher = newPublisher(r)
	var keeper dirclient.Keeper
	var dir *dirserver.Server
	if !r.cfg.NoDir {
		cfg := dirserver.Config{Log: r.log, Memory: r.memory, Authorities: r.cfg.Network.AuthorityAddrs()}
		cfg.Timeout, cfg.MaxPerLink = r.cfg.dirTimeout, r.cfg.dirPerLink
		r.cache = newDirCache(cfg, r.Directory, r.Descriptor)
		if err := r.cache.docs.KeepIn(filepath.Join(r.cfg.DataDir, earlierFolder), r.log); err != nil {
			r.log.Warn("directory: consensuses are kept in memory only", "err", err)
		}
		dir, keeper = r.cache.server, r.cache
	}
	r.origin = r.judgeOrigin
	r.exit, err = exit.New(r.cfg.Exit, dir, exit.Options{Log: r.log, Now: time.Now, Sockets: int(min(sockets, 1<<20)), Own: r.cfg.Addresses(), Inside: r.isNetworkPort, Judge: func(l *channel.Link) cell.EndReason { return r.origin(l) }, Stats: &r.stats.Exit})
	if err != nil {
		return err
	}
	r.padding = channel.NewPadding(channel.DefaultPadding(r.cfg.padMode()))
	r.chanCfg = &channel.Config{Log: r.log, Now: time.Now, Accept: r.accept, Stats: &r.stats.Channel, Padding: r.padding, MayRest: r.mayRest, Last: r.dos.listed, Memory: r.memory}
	var heard func(*channel.CircuitEnd, cell.RelayMsg)
	if t := r.cfg.Tap; t != nil {
		r.chanCfg.Tap, heard = t.Link, t.Heard
	}
	r.channels = channel.NewManager(r.chanCfg, r.linkConfig(), r.dial)
	r.server = circuit.NewServer(circuit.ServerConfig{
		Env: r.env, ID: r.keys.ID, Onion: r.keys.Onion, Flow: r.flow.Load, Channels: r.channels, Streams: r.exit,
		AllowTarget: r.allowTarget, Lookup: r.lookup, Stats: &r.stats.Circuit,
		PQ: []string{proto.Versions(handshake.ProtoName)}, HS: r.dos.onions, Heard: heard,
	})
	docs := r.cfg.DataDir
	if r.cfg.Documents != nil { // the process has them: a file for each relay would be as much work as to fetch them
		docs = ""
	}
	r.dirs = dirclient.New(dirclient.Config{
		Network: r.cfg.Network, Dialer: &caches{r: r, failed: map[ident.RSAID]time.Time{}}, Dir: docs, Shared: r.cfg.Documents, Keeper: keeper, Early: true, Short: !r.cfg.Bridge, Speaker: netdir.ThisProgram(true), Log: r.log,
	})
	return nil
}

func (r *Relay) linkConfig() *channel.LinkConfig {
	var addrs []netip.Addr
	for _, a := range r.Addrs() {
		if !a.Addr().IsUnspecified() {
			addrs = append(addrs, a.Addr())
		}
	}
	return &channel.LinkConfig{Identity: r.keys.Link(), Addrs: addrs, Log: r.log, Memory: r.memory, Bridge: r.cfg.Bridge, Common: r.cfg.Bridge, Timeout: max(r.patience(), channel.HandshakeTimeout)}
}

// allowTarget removes addresses at which no relay of the network can be, as C tor
// does, and refuses circuits to a target without any other.
func (r *Relay) allowTarget(t *linkspec.Target) error {
	if r.cfg.Network.Testing.AllowPrivateAddresses {
		return nil
	}
	n := 0
	for _, a := range t.Addrs {
		if netaddr.Public(a.Addr()) && a.Port() != 0 {
			t.Addrs[n] = a
			n++
		}
	}
	if t.Addrs = t.Addrs[:n]; n == 0 {
		return fault.New(fault.Protocol, "EXTEND2 to a private address")
	}
	return nil
}

// lookup returns the entry of a relay in the consensus, if there is one.
func (r *Relay) lookup(id ident.RSAID) (linkspec.Target, bool) {
	d := r.dirs.Directory()
	if d == nil {
		return linkspec.Target{}, false
	}
	listed, ok := d.Lookup(id)
	if !ok {
		return linkspec.Target{}, false
	}
	return listed.Target(), true
}

// dial opens the connection of a link to another relay. If the relay has an
// address of the same family, the connection comes from it, so that the peer
// finds the link canonical.
func (r *Relay) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
	known := r.dos.knows(addr)
	if err := r.gate.enterDial(addr, known); err != nil {
		return nil, err
	}
	var closed func()
	if !known {
		closed = r.gate.leaveStranger
	}
	conn, err := r.dialLink(ctx, addr)
	r.gate.leaveDial(addr, known)
	if err != nil {
		r.gate.leave()
		if closed != nil {
			closed()
		}
		return nil, err
	}
	tuneLink(conn)
	return r.limits.limit(&gatedConn{Conn: conn, ticket: ticket{gate: r.gate, closed: closed}}), nil
}

func (r *Relay) dialLink(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	if r.cfg.Dial != nil {
		return r.cfg.Dial(ctx, addr)
	}
	d := net.Dialer{LocalAddr: r.sourceFor(addr.Addr()), Control: outbound.Late}
	return d.DialContext(ctx, "tcp", addr.String())
}

// sourceFor returns the source address of a connection to a peer: the one that the operator wants,
// or else one that the relay listens at; nil leaves the choice to the system.
func (r *Relay) sourceFor(to netip.Addr) net.Addr {
	if a := outbound.Local(r.cfg.Outbound.OR, to); a != nil {
		return a
	}
	if a := listenAddrFor(r.cfg.Listen, to); a.IsValid() {
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, 0))
	}
	return nil
}

// listenAddrFor picks the local address of a connection to a peer: the first of a
// relay's listening addresses that can reach it. The zero Addr leaves the choice
// to the system. An address on loopback, behind a transport or a forwarder,
// cannot reach other machines.
func listenAddrFor(listen []netip.AddrPort, to netip.Addr) netip.Addr {
	for _, l := range listen {
		a := l.Addr().Unmap()
		near := a.IsLoopback() || a.IsLinkLocalUnicast()
		if a.Is4() == to.Is4() && !a.IsUnspecified() && (!near || to.IsLoopback() || to.IsLinkLocalUnicast()) {
			return a
		}
	}
	return netip.Addr{}
}
