package circuit

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netaddr"
)

// A dial that a stranger causes takes a file descriptor, two goroutines and, where
// somebody answers, a TLS handshake; at an address where nobody answers it takes
// them for extendTimeout. So whoever causes many has to wait: these bound the
// extends that wait for a dial, or whose dial failed in the last extendMemory.
// Extends over links that are open already are not counted.
const (
	maxDialsLink = 32 // that came over one link, failures not counted
	maxDialsAddr = 64 // that came from one address
	extendMemory = 10 * time.Second
)

// extendOrigins counts the extends that wait for a dial by where they came from:
// links (*channel.Channel) and addresses (netip.Prefix).
type extendOrigins struct {
	mu    sync.Mutex // guards what follows
	links map[*channel.Channel]int
	addrs map[netip.Prefix]*extendOrigin
}

// extendOrigin is one address's.
type extendOrigin struct {
	waiting int
	failed  int       // since since
	since   time.Time // at most extendMemory ago, or failed is to be forgotten
}

// dial returns a channel to the target for a circuit that came over from. Where
// that has no address, as behind a pluggable transport, only the link is counted.
func (s *Server) dial(ctx context.Context, from *channel.Channel, t linkspec.Target) (*channel.Channel, error) {
	if ch := s.cfg.Channels.Find(t); ch != nil {
		return ch, nil
	}
	addr := netaddr.Peer(from.RemoteAddr())
	if !s.origins.enter(from, addr, s.cfg.Env.Now()) {
		return nil, fault.New(fault.Resource, "extend: too many dials for this peer are under way, or failed lately")
	}
	ch, err := s.cfg.Channels.Get(ctx, t)
	s.origins.leave(from, addr, s.cfg.Env.Now(), err != nil)
	return ch, err
}

// enter counts an extend that is to wait for a dial; false says that there are too
// many.
func (o *extendOrigins) enter(link *channel.Channel, addr netip.Prefix, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sweep(now)
	if o.links[link] >= maxDialsLink {
		return false
	}
	if addr.IsValid() {
		a := o.addrs[addr]
		if a == nil {
			a = &extendOrigin{since: now}
			if o.addrs == nil {
				o.addrs = map[netip.Prefix]*extendOrigin{}
			}
			o.addrs[addr] = a
		}
		if a.forget(now); a.waiting+a.failed >= maxDialsAddr {
			return false
		}
		a.waiting++
	}
	if o.links == nil {
		o.links = map[*channel.Channel]int{}
	}
	o.links[link]++
	return true
}

// leave takes back what enter counted.
func (o *extendOrigins) leave(link *channel.Channel, addr netip.Prefix, now time.Time, failed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.links[link]--; o.links[link] == 0 {
		delete(o.links, link)
	}
	if a := o.addrs[addr]; a != nil {
		a.waiting--
		if a.forget(now); failed {
			a.failed++
		}
		if a.idle() {
			delete(o.addrs, addr)
		}
	}
}

// sweep forgets addresses whose failures are old, a few at each call: more than
// can have come since the last.
func (o *extendOrigins) sweep(now time.Time) {
	n := 0
	for addr, a := range o.addrs {
		if a.forget(now); a.idle() {
			delete(o.addrs, addr)
		}
		if n++; n == 4 {
			return
		}
	}
}

func (a *extendOrigin) forget(now time.Time) {
	if d := now.Sub(a.since); d >= extendMemory || d < 0 {
		a.failed, a.since = 0, now
	}
}

func (a *extendOrigin) idle() bool { return a.waiting == 0 && a.failed == 0 }
