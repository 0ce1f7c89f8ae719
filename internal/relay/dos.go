package relay

import (
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/pace"
)

// dosParams are the consensus's parameters of denial-of-service defences
// (param-spec, "Denial-of-service parameters"), with C tor's defaults for their
// numbers. A defence of type 1 does nothing. Circuits and connections are limited unless the consensus turns this
// off. C tor limits them only if the consensus turns it on, which leaves a new
// network without defence. In testing networks, whose nodes share addresses, the
// consensus must turn it on here too.
type dosParams struct {
	circuits     bool
	circuitConns int // the number of connections from which on an address is limited
	circuitPace  pace.Limit
	circuitBan   time.Duration
	floods       int // circuits with too many cells for the next relay that bring a ban; 0: none do
	conns        bool
	connMax      int // at the same time
	connPace     pace.Limit
	connBan      time.Duration
	streams      *exit.StreamLimit // nil: off
	onions       circuit.HSParams
}

// dosParamsOf reads them; d may be nil.
func dosParamsOf(d *netdir.Directory, testing bool) dosParams {
	get := func(name string, def, lo, hi int32) float64 {
		if d == nil {
			return float64(def)
		}
		return float64(d.Param(name, def, lo, hi))
	}
	on := int32(1)
	if testing {
		on = 0
	}
	const big = 1<<31 - 1
	p := dosParams{
		circuits:     get("DoSCircuitCreationEnabled", on, 0, 1) == 1 && get("DoSCircuitCreationDefenseType", 2, 1, 2) == 2,
		circuitConns: int(get("DoSCircuitCreationMinConnections", 3, 1, big)),
		circuitPace:  pace.Limit{Rate: get("DoSCircuitCreationRate", 3, 1, big), Burst: get("DoSCircuitCreationBurst", 90, 1, big)},
		circuitBan:   time.Duration(get("DoSCircuitCreationDefenseTimePeriod", 3600, 0, big)) * time.Second,
		floods:       int(get("dos_num_circ_max_outq", 3, 0, big)),
		conns:        get("DoSConnectionEnabled", on, 0, 1) == 1 && get("DoSConnectionDefenseType", 2, 1, 2) == 2,
		connMax:      int(get("DoSConnectionMaxConcurrentCount", 100, 1, big)),
		connPace:     pace.Limit{Rate: get("DoSConnectionConnectRate", 20, 1, big), Burst: get("DoSConnectionConnectBurst", 40, 1, big)},
		connBan:      time.Duration(get("DoSConnectionConnectDefenseTimePeriod", 86400, 10, big)) * time.Second,
	}
	p.onions = circuit.HSParams{
		IntroDefense:    get("HiddenServiceEnableIntroDoSDefense", 0, 0, 1) == 1,
		Intro:           pace.Limit{Rate: get("HiddenServiceEnableIntroDoSRatePerSec", 25, 0, big), Burst: get("HiddenServiceEnableIntroDoSBurstPerSec", 200, 0, big)},
		RefuseSingleHop: get("DoSRefuseSingleHopClientRendezvous", 0, 0, 1) == 1,
	}
	if kind := get("DoSStreamCreationDefenseType", 2, 1, 3); kind > 1 && get("DoSStreamCreationEnabled", 0, 0, 1) == 1 {
		p.streams = &exit.StreamLimit{
			Pace:    pace.Limit{Rate: get("DoSStreamCreationRate", 100, 1, big), Burst: get("DoSStreamCreationBurst", 300, 1, big)},
			Destroy: kind == 3,
		}
	}
	return p
}

// dos limits what one address may do. Links of relays that the consensus lists
// are exempt, because each carries many clients: a link counts as such if it has
// proved the relay's identity in the link handshake. An identity that the
// consensus does not list exempts nothing; C tor is too generous in this.
//
// A new connection has proved nothing yet. So connections from listed relays'
// addresses may always do the link handshake: otherwise an attacker that shares
// such an address, or that makes an exit connect to this relay, could cut the
// listed relay off.
type dos struct {
	now     func() time.Time
	testing bool // see dosParams
	// bridge lifts the limits by address, as in C tor: the users of a bridge are few, and
	// often share an address with many, behind their provider or behind a transport.
	bridge bool

	mu     sync.Mutex // guards what follows
	params dosParams
	peers  map[netip.Prefix]*peer
	// of the relays in the consensus
	ids   map[ident.RSAID]bool
	addrs map[netip.Addr]bool
	ports map[netip.AddrPort]bool // ORPorts
}

// peer is the state of one address, or of an IPv6 /64.
type peer struct {
	conns    int
	connect  pace.Pace
	create   pace.Pace
	floods   int       // of circuits, since the last ban for them
	banConn  time.Time // until then it may not connect
	banCirc  time.Time
	lastSeen time.Time
}

// maxPeers bounds the addresses without open connections in the table; file
// descriptors bound those with connections. When the table is full, each new
// address makes dos examine up to looked other entries and drop some of them.
const (
	maxPeers   = 1 << 17
	looked     = 8
	peerForget = time.Hour
)

func newDoS(now func() time.Time, testing, bridge bool) *dos {
	d := &dos{now: now, testing: testing, bridge: bridge, peers: map[netip.Prefix]*peer{}}
	d.params = d.read(nil)
	return d
}

// read returns the parameters that hold for this relay; dir may be nil.
func (d *dos) read(dir *netdir.Directory) dosParams {
	p := dosParamsOf(dir, d.testing)
	if d.bridge {
		p.circuits, p.conns = false, false
	}
	return p
}

// onions returns what holds for onion services.
func (d *dos) onions() circuit.HSParams {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.params.onions
}

// update takes the parameters and the relays of a new consensus.
func (d *dos) update(dir *netdir.Directory) dosParams {
	p := d.read(dir)
	ids, addrs, ports := map[ident.RSAID]bool{}, map[netip.Addr]bool{}, map[netip.AddrPort]bool{}
	for r := range dir.All() {
		ids[r.RSA()] = true
		all := []netip.AddrPort{r.IPv4()}
		if six, ok := r.IPv6(); ok {
			all = append(all, six)
		}
		for _, a := range all {
			addrs[a.Addr()], ports[a] = true, true
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.params, d.ids, d.addrs, d.ports = p, ids, addrs, ports
	return p
}

// peerLocked returns the state of an address, which it makes if necessary.
func (d *dos) peerLocked(a netip.Addr, now time.Time) *peer {
	key := netaddr.Peer(a)
	p := d.peers[key]
	if p == nil {
		if len(d.peers) >= maxPeers {
			d.roomLocked(now)
		}
		p = &peer{}
		d.peers[key] = p
	}
	p.lastSeen = now
	return p
}

// roomLocked drops a few addresses without connections: those without a ban, or
// else the one that was last seen longest ago.
func (d *dos) roomLocked(now time.Time) {
	var oldest netip.Prefix
	n, forgot := 0, false
	for k, p := range d.peers { // starts at a random entry
		switch {
		case p.conns > 0:
		case !p.banned(now):
			delete(d.peers, k)
			forgot = true
		case !oldest.IsValid() || p.lastSeen.Before(d.peers[oldest].lastSeen):
			oldest = k
		}
		if n++; n == looked {
			break
		}
	}
	if !forgot && oldest.IsValid() {
		delete(d.peers, oldest)
	}
}

// banned reports whether the address has a ban on connections or on circuits now.
func (p *peer) banned(now time.Time) bool { return now.Before(p.banConn) || now.Before(p.banCirc) }

// connect reports whether a new connection may stay, and if so counts it.
func (d *dos) connect(a netip.Addr) bool {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.peerLocked(a, now)
	if c := &d.params; c.conns && !d.addrs[a] {
		if now.Before(p.banConn) || p.conns >= c.connMax {
			return false
		}
		if !p.connect.Allow(now, c.connPace) {
			p.banConn = now.Add(banTime(c.connBan))
			return false
		}
	}
	p.conns++
	return true
}

// crowded reports whether an address has too many connections. It is called for
// connections from a relay's address that turn out not to be the relay's.
func (d *dos) crowded(a netip.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.peers[netaddr.Peer(a)]
	return p != nil && d.params.conns && p.conns > d.params.connMax
}

// disconnect removes a connection from the count: it was closed, or is a listed
// relay's.
func (d *dos) disconnect(a netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.peers[netaddr.Peer(a)]; p != nil && p.conns > 0 {
		p.conns--
	}
}

// listed reports whether the peer of a link has proved the identity of a relay in
// the consensus.
func (d *dos) listed(l *channel.Link) bool {
	if !l.PeerAuthenticated {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ids[l.Peer.RSA]
}

// near reports whether a relay in the consensus has that IP address.
func (d *dos) near(a netip.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.addrs[a]
}

// knows reports whether a relay in the consensus has that ORPort.
func (d *dos) knows(a netip.AddrPort) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ports[a]
}

// create reports whether a circuit may be created over a link that is no listed
// relay's.
func (d *dos) create(a netip.Addr) bool {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &d.params
	if !c.circuits {
		return true
	}
	p := d.peerLocked(a, now)
	if now.Before(p.banCirc) {
		return false
	}
	if !p.create.Allow(now, c.circuitPace) && p.conns >= c.circuitConns {
		p.banCirc = now.Add(banTime(c.circuitBan))
		return false
	}
	return true
}

// forget drops old entries.
func (d *dos) forget() {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, p := range d.peers {
		if p.conns == 0 && now.Sub(p.lastSeen) > peerForget && !p.banned(now) {
			delete(d.peers, k)
		}
	}
}
