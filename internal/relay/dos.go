package relay

import (
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/exit"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdir"
)

// dosParams are the consensus's parameters of denial-of-service defences
// (param-spec, "Denial-of-service parameters"), with C tor's defaults.
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

func dosParamsOf(d *netdir.Directory) dosParams {
	get := func(name string, def, lo, hi int32) float64 { return float64(d.Param(name, def, lo, hi)) }
	const big = 1<<31 - 1
	p := dosParams{
		circuits:     get("DoSCircuitCreationEnabled", 0, 0, 1) == 1,
		circuitConns: int(get("DoSCircuitCreationMinConnections", 3, 1, big)),
		circuitRate:  get("DoSCircuitCreationRate", 3, 1, big),
		circuitMax:   get("DoSCircuitCreationBurst", 90, 1, big),
		circuitBan:   time.Duration(get("DoSCircuitCreationDefenseTimePeriod", 3600, 0, big)) * time.Second,
		conns:        get("DoSConnectionEnabled", 0, 0, 1) == 1,
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

// dos limits what one address may do. Relays are exempt: many clients are
// behind each.
type dos struct {
	now func() time.Time

	mu     sync.Mutex // guards what follows
	params dosParams
	peers  map[netip.Prefix]*peer
	relays map[netip.Addr]bool // of the consensus, and who authenticated
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

func newDoS(now func() time.Time) *dos {
	return &dos{now: now, peers: map[netip.Prefix]*peer{}, relays: map[netip.Addr]bool{}}
}

// update takes the parameters and the relays of a new consensus.
func (d *dos) update(dir *netdir.Directory) dosParams {
	p := dosParamsOf(dir)
	relays := make(map[netip.Addr]bool, dir.Len())
	for r := range dir.All() {
		relays[r.IPv4().Addr()] = true
		if six, ok := r.IPv6(); ok {
			relays[six.Addr()] = true
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.params, d.relays = p, relays
	return p
}

// peerLocked returns what is known of the address; nil when it is exempt.
func (d *dos) peerLocked(a netip.Addr, now time.Time) *peer {
	if d.relays[a] {
		return nil
	}
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
	if c := &d.params; c.conns {
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

func (d *dos) disconnect(a netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.peers[netaddr.Peer(a)]; p != nil && p.conns > 0 {
		p.conns--
	}
}

// isRelay exempts the address of who proved to be a relay.
func (d *dos) isRelay(a netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.relays) < maxPeers {
		d.relays[a] = true
	}
}

// knows reports whether an address is a relay's.
func (d *dos) knows(a netip.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.relays[a]
}

// create judges a circuit that a client asks for.
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
