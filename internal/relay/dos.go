package relay

import (
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdir"
)

// dosParams are the consensus's parameters of denial-of-service defences
// (param-spec, "Denial-of-service parameters"), with C tor's defaults for their
// numbers. Circuits and connections are limited unless the consensus says not to:
// C tor does so only when the consensus says so, which leaves a young network
// without defence. In testing networks, whose nodes share addresses, the
// consensus has to say so.
type dosParams struct {
	circuits                bool
	circuitConns            int     // connections from which an address is watched
	circuitRate, circuitMax float64 // a second, and at once
	circuitBan              time.Duration
	conns                   bool
	connMax                 int // at the same time
	connRate, connBurst     float64
	connBan                 time.Duration
	streams                 *exit.StreamLimit // nil: off
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
		circuits:     get("DoSCircuitCreationEnabled", on, 0, 1) == 1,
		circuitConns: int(get("DoSCircuitCreationMinConnections", 3, 1, big)),
		circuitRate:  get("DoSCircuitCreationRate", 3, 1, big),
		circuitMax:   get("DoSCircuitCreationBurst", 90, 1, big),
		circuitBan:   time.Duration(get("DoSCircuitCreationDefenseTimePeriod", 3600, 0, big)) * time.Second,
		conns:        get("DoSConnectionEnabled", on, 0, 1) == 1,
		connMax:      int(get("DoSConnectionMaxConcurrentCount", 100, 1, big)),
		connRate:     get("DoSConnectionConnectRate", 20, 1, big),
		connBurst:    get("DoSConnectionConnectBurst", 40, 1, big),
		connBan:      time.Duration(get("DoSConnectionConnectDefenseTimePeriod", 86400, 10, big)) * time.Second,
	}
	if get("DoSStreamCreationEnabled", 0, 0, 1) == 1 {
		p.streams = &exit.StreamLimit{
			Rate: get("DoSStreamCreationRate", 100, 1, big), Burst: get("DoSStreamCreationBurst", 300, 1, big),
			Destroy: get("DoSStreamCreationDefenseType", 2, 1, 3) == 3,
		}
	}
	return p
}

// dos limits what one address may do. Links of relays that the consensus lists
// are exempt, for many clients are behind each: those that have proved the
// relay's identity in the link handshake. To have made an identity of one's own
// is worth nothing, and C tor is too generous there.
//
// Who connects has proved nothing yet. So connections from listed relays'
// addresses are let in to the link handshake in any case: nobody who shares such
// an address, or gets an exit to connect to us, cuts the relay off.
type dos struct {
	now     func() time.Time
	testing bool // see dosParams

	mu     sync.Mutex // guards what follows
	params dosParams
	peers  map[netip.Prefix]*peer
	// of relays in the consensus
	ids   map[ident.RSAID]bool
	addrs map[netip.Addr]bool
	ports map[netip.AddrPort]bool // ORPorts
}

// peer is what is known of one address, or of an IPv6 /64.
type peer struct {
	conns    int
	connect  bucket
	create   bucket
	banConn  time.Time // until when it may not connect
	banCirc  time.Time
	lastSeen time.Time
}

// bucket is a token bucket.
type bucket struct {
	tokens float64
	filled time.Time // zero: full
}

// take takes one token, if there is one.
func (b *bucket) take(now time.Time, rate, burst float64) bool {
	if b.filled.IsZero() {
		b.tokens = burst
	} else {
		b.tokens = min(burst, b.tokens+now.Sub(b.filled).Seconds()*rate)
	}
	b.filled = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

const (
	maxPeers   = 1 << 17
	peerForget = time.Hour
)

func newDoS(now func() time.Time, testing bool) *dos {
	return &dos{now: now, testing: testing, params: dosParamsOf(nil, testing), peers: map[netip.Prefix]*peer{}}
}

// update takes the parameters and the relays of a new consensus.
func (d *dos) update(dir *netdir.Directory) dosParams {
	p := dosParamsOf(dir, d.testing)
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

// peerLocked returns what is known of the address; nil when there is no room to
// know anything.
func (d *dos) peerLocked(a netip.Addr, now time.Time) *peer {
	key := netaddr.Peer(a)
	p := d.peers[key]
	if p == nil {
		if len(d.peers) >= maxPeers {
			return nil // the table is full: rather no limit than no service
		}
		p = &peer{}
		d.peers[key] = p
	}
	p.lastSeen = now
	return p
}

// connect judges a new connection and counts it when it may stay.
func (d *dos) connect(a netip.Addr) bool {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.peerLocked(a, now)
	if p == nil {
		return true
	}
	if c := &d.params; c.conns && !d.addrs[a] {
		if now.Before(p.banConn) || p.conns >= c.connMax {
			return false
		}
		if !p.connect.take(now, c.connRate, c.connBurst) {
			p.banConn = now.Add(c.connBan)
			return false
		}
	}
	p.conns++
	return true
}

// crowded reports whether an address has more connections than it may: one of a
// relay, whose link has turned out to be somebody else's.
func (d *dos) crowded(a netip.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.peers[netaddr.Peer(a)]
	return p != nil && d.params.conns && p.conns > d.params.connMax
}

// disconnect counts a connection no more: it was closed, or is a listed relay's.
func (d *dos) disconnect(a netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.peers[netaddr.Peer(a)]; p != nil && p.conns > 0 {
		p.conns--
	}
}

// listed reports whether the other end of a link has proved to be a relay that
// the consensus lists.
func (d *dos) listed(l *channel.Link) bool {
	if !l.PeerAuthenticated {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ids[l.Peer.RSA]
}

// near reports whether a relay that the consensus lists has that address.
func (d *dos) near(a netip.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.addrs[a]
}

// knows reports whether a relay that the consensus lists has its ORPort there.
func (d *dos) knows(a netip.AddrPort) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ports[a]
}

// create judges a circuit that is asked for over a link of no listed relay.
func (d *dos) create(a netip.Addr) bool {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &d.params
	if !c.circuits {
		return true
	}
	p := d.peerLocked(a, now)
	if p == nil {
		return true
	}
	if now.Before(p.banCirc) {
		return false
	}
	if !p.create.take(now, c.circuitRate, c.circuitMax) && p.conns >= c.circuitConns {
		p.banCirc = now.Add(c.circuitBan)
		return false
	}
	return true
}

// forget drops what is old.
func (d *dos) forget() {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, p := range d.peers {
		if p.conns == 0 && now.Sub(p.lastSeen) > peerForget && now.After(p.banConn) && now.After(p.banCirc) {
			delete(d.peers, k)
		}
	}
}
