package circuit

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/bin"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
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

// Dialling returns how many extends wait for a link.
func (s *Server) Dialling() (n int) {
	s.origins.mu.Lock()
	defer s.origins.mu.Unlock()
	for _, waiting := range s.origins.links {
		n += waiting
	}
	return n
}

// enter counts an extend that is to wait for a dial; false says that there are too
// many.
func (o *extendOrigins) enter(link *channel.Channel, addr netip.Prefix, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sweepLocked(now)
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

// sweepLocked forgets addresses whose failures are old, a few at each call: more than
// can have come since the last.
func (o *extendOrigins) sweepLocked(now time.Time) {
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

// target reads which relay an EXTEND2 of the given form names, and judges that as
// C tor does; from is the relay that the circuit came from, zero for a client.
func (s *Server) target(from ident.RelayID, m cell.Extend2, form *cell.Form) (linkspec.Target, error) {
	var none linkspec.Target
	k, err := s.kind(m.Type, form)
	if err != nil {
		return none, err
	}
	if m.Type == cell.HandshakeTAP {
		return none, fault.New(fault.Protocol, "EXTEND2: TAP is obsolete")
	}
	r := bin.NewReader("EXTEND2", m.Specs)
	t, err := linkspec.TargetOf(linkspec.Read(&r))
	if err != nil {
		return none, err
	}
	if err := s.complete(&t, k); err != nil {
		return none, err
	}
	if sameRelay(t.RelayID, s.cfg.ID) {
		return none, fault.New(fault.Protocol, "EXTEND2 to this relay itself")
	}
	if sameRelay(t.RelayID, from) {
		return none, fault.New(fault.Protocol, "EXTEND2 back to the relay that the circuit came from")
	}
	if s.cfg.AllowTarget != nil {
		if err := s.cfg.AllowTarget(&t); err != nil {
			return none, err
		}
	}
	return t, nil
}

// complete compares what an EXTEND2 says with the directory. It adds an Ed25519
// identity that is missing. It refuses a handshake in long cells that the target
// does not advertise, because the target may not know such cells.
func (s *Server) complete(t *linkspec.Target, k *handshake.Kind) error {
	if s.cfg.Lookup == nil {
		return nil
	}
	known, ok := s.cfg.Lookup(t.RSA)
	if !ok {
		return nil
	}
	if t.Ed.IsZero() {
		t.Ed = known.Ed
	}
	if k != nil && k.Form == cell.FormLong && !known.Proto.Has(k.Proto, k.Version) {
		return fault.New(fault.Protocol, "EXTEND2: %s, which the next relay does not advertise", k.Name)
	}
	return nil
}

// sameRelay reports whether two relays have one identity in common: a relay that lies
// about the other one is the same relay.
func sameRelay(a, b ident.RelayID) bool {
	return !a.RSA.IsZero() && a.RSA.Equal(b.RSA) || !a.Ed.IsZero() && a.Ed.Equal(b.Ed)
}
