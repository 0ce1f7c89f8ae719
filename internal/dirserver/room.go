package dirserver

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdoc"
)

// rank says how much of the room a peer may fill. What the others may not fill
// is kept for it.
type rank uint8

const (
	stranger  rank = iota
	listed         // from the address of a relay that the consensus lists
	authority      // from the address of an authority of the network
)

// share returns what the rank may fill of n: one at least.
func (r rank) share(n int64) int64 {
	switch r {
	case authority:
		return n
	case listed:
		return max(n-n/8, 1)
	}
	return max(n-n/4, 1)
}

// rank says who is at an address: TCP has proved that the peer is there.
func (s *Server) rank(a netip.Addr) rank {
	if s.authorities[a] {
		return authority
	}
	for _, f := range []netdoc.Flavor{netdoc.FlavorNS, netdoc.FlavorMicrodesc} {
		if c := s.cfg.Docs.Consensus(f); c != nil && c.relays[a] {
			return listed
		}
	}
	return stranger
}

// Lists reports whether the consensus has a relay at an address.
func (s *Server) Lists(a netip.Addr) bool { return s.rank(a) != stranger }

// guest is what the room knows of an address, or of an IPv6 /64.
type guest struct {
	open    int   // requests under way
	uploads int64 // bytes of uploads
	// What its uploads cost of a processor's time lately: the debt, which time
	// pays off, and when it was looked at last.
	toil time.Duration
	seen time.Time
}

// guestKey is whom a guest is: an address has one for each way in, for those behind a
// relay must not keep the relay itself out.
type guestKey struct {
	addr      netip.Prefix
	tunnelled bool
}

// room counts what is under way, so that nobody fills all of it: by address on
// each way in, and by OR link.
type room struct {
	cfg *Config

	mu      sync.Mutex // guards what follows
	ways    [2]int64   // requests under way: DirPort, BEGIN_DIR
	links   map[any]int
	guests  map[guestKey]*guest
	uploads int64 // bytes
}

func newRoom(cfg *Config) *room {
	return &room{cfg: cfg, links: map[any]int{}, guests: map[guestKey]*guest{}}
}

func wayIn(tunnelled bool) int {
	if tunnelled {
		return 1
	}
	return 0
}

// visit is a request that was let in.
type visit struct {
	room *room
	peer Peer
	rank rank
	key  guestKey
	held int64 // bytes of its upload; only its own goroutine's
	// wanted returns a context that ends with the peer's stream; nil: nobody knows when the
	// peer goes.
	wanted func(context.Context) (ctx context.Context, stop func())
}

// enter lets a request in, if there is room for its peer; else it returns nil.
func (m *room) enter(peer Peer, r rank) *visit {
	v := &visit{room: m, peer: peer, rank: r, key: guestKey{netaddr.Peer(peer.Addr), peer.Tunnelled}}
	w := wayIn(peer.Tunnelled)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ways[w] >= r.share(int64(m.cfg.MaxConns)) {
		return nil
	}
	if peer.Link != nil && m.links[peer.Link] >= m.perLink(r) {
		return nil
	}
	g := m.guestLocked(v.key)
	if v.bounded() && g.open >= m.cfg.MaxPerAddr {
		return nil
	}
	m.ways[w]++
	g.open++
	if peer.Link != nil {
		m.links[peer.Link]++
	}
	return v
}

// perLink bounds the requests of one OR link. Behind a relay's are many clients.
func (m *room) perLink(r rank) int {
	if r == stranger {
		return m.cfg.MaxPerLink
	}
	return 4 * m.cfg.MaxPerLink
}

// bounded reports whether the address's bound holds: not where the link's is all
// that can, as with clients behind one relay, or behind a transport that does not
// say who they are.
func (v *visit) bounded() bool {
	behind := v.peer.Tunnelled && (v.rank != stranger || !v.peer.Addr.IsValid())
	return v.rank != authority && !behind
}

// leave ends a visit.
func (v *visit) leave() {
	m := v.room
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ways[wayIn(v.peer.Tunnelled)]--
	g := m.guestLocked(v.key)
	g.open--
	g.uploads -= v.held
	m.uploads -= v.held
	if link := v.peer.Link; link != nil {
		if m.links[link]--; m.links[link] == 0 {
			delete(m.links, link)
		}
	}
	m.forgetLocked(v.key, g)
}

// smallUpload is as much as a relay has to upload, in bytes. What strangers send
// beyond it, such as votes that nobody asked them for, has half of their room.
const smallUpload = 256 << 10

// hold counts n bytes more of an upload that have come, or are about to, if
// there is room for them.
func (v *visit) hold(n int) bool {
	m := v.room
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.guestLocked(v.key)
	room := v.rank.share(m.cfg.MaxUploads)
	if v.rank == stranger && v.held+int64(n) > smallUpload {
		room /= 2 // the rest is for those who have little to say
	}
	if m.uploads+int64(n) > room {
		return false
	}
	if v.rank != authority && g.uploads+int64(n) > m.cfg.MaxUploads/8 {
		return false
	}
	m.uploads += int64(n)
	g.uploads += int64(n)
	v.held += int64(n)
	return true
}

// Bounds on the processor time that one address's uploads may take: so much at
// once, and a twentieth of one processor in the long run.
const (
	maxToil  = 2 * time.Second
	toilRate = 20
)

// tired reports whether the address's uploads have cost too much lately.
func (v *visit) tired() bool {
	if v.rank == authority {
		return false
	}
	m := v.room
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.guestLocked(v.key).rested(time.Now()) >= maxToil
}

// toiled counts what an upload has cost.
func (v *visit) toiled(d time.Duration) {
	m := v.room
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.guestLocked(v.key)
	g.toil = g.rested(time.Now()) + d
}

// rested returns what is left of the debt.
func (g *guest) rested(now time.Time) time.Duration {
	if !g.seen.IsZero() {
		g.toil = max(0, g.toil-now.Sub(g.seen)/toilRate)
	}
	g.seen = now
	return g.toil
}

// maxGuests bounds the addresses that are remembered for what they have cost.
const maxGuests = 1 << 16

func (m *room) guestLocked(key guestKey) *guest {
	g := m.guests[key]
	if g == nil {
		if len(m.guests) >= maxGuests {
			m.sweepLocked()
		}
		g = new(guest)
		m.guests[key] = g
	}
	return g
}

// forgetLocked drops an address that nothing is known of.
func (m *room) forgetLocked(key guestKey, g *guest) {
	if g.open == 0 && g.rested(time.Now()) == 0 {
		delete(m.guests, key)
	}
}

// sweepLocked drops the addresses with nothing under way: those whose debt is
// paid, or all when there are too many.
func (m *room) sweepLocked() {
	for key, g := range m.guests {
		m.forgetLocked(key, g)
	}
	if len(m.guests) < maxGuests*7/8 {
		return
	}
	for key, g := range m.guests {
		if g.open == 0 {
			delete(m.guests, key)
		}
	}
}
