package relay

import (
	"net"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// What a controller of the relay sees: package tord asks for it.

// Listening returns the addresses of the ORPort's and the DirPort's listeners, as long as they are open: Addrs has those at
// which others reach the relay.
func (r *Relay) Listening() (or, dir []net.Addr) {
	p := r.opened.Load()
	if p == nil || r.shut.Load() {
		return nil, nil
	}
	for _, ln := range p.or {
		or = append(or, ln.Addr())
	}
	if p.dir != nil {
		dir = append(dir, p.dir.Addr())
	}
	return or, dir
}

// Policy returns the exit policy as the descriptor has it: nothing but a rule that refuses all if the relay is no exit.
func (r *Relay) Policy() netdoc.ExitPolicy { return r.live.Load().cfg.policy() }

// Describe makes a descriptor and its extra-info document as they would be now. They are not published.
func (r *Relay) Describe() (*netdoc.RouterDesc, *netdoc.ExtraInfo, error) {
	return r.describe(time.Now())
}

// Acceptance says that an authority has taken the relay's descriptor.
type Acceptance struct {
	At  netip.AddrPort // the authority's port for directories, or its ORPort if it has none
	Met time.Time      // when it last took one
}

// Acceptances returns which authorities have taken a descriptor, in the order of the network's authorities.
func (r *Relay) Acceptances() []Acceptance {
	p := r.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Acceptance
	for _, a := range r.cfg.Network.Authorities {
		met, ok := p.accepted[a.RSA]
		if !ok {
			continue
		}
		at := a.DirPort
		if !at.IsValid() && len(a.ORPorts) > 0 {
			at = a.ORPorts[0]
		}
		out = append(out, Acceptance{at, met})
	}
	return out
}

// Counted returns the bytes that the links have read and written in the present interval of the accounting, and ok: there is a
// limit.
func (r *Relay) Counted() (read, written uint64, ok bool) {
	a := &r.acct
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.meter == nil {
		return 0, 0, false
	}
	c := a.meter.Count()
	return c.Read, c.Written, true
}

// DescriptorText returns the newest descriptor of a relay, this one or one that it keeps for others; nil: there is none.
func (r *Relay) DescriptorText(id ident.RSAID) []byte {
	if id == r.keys.ID.RSA {
		if d := r.desc.Load(); d != nil {
			return d.Text
		}
		return nil
	}
	if r.cache == nil {
		return nil
	}
	if d := r.cache.docs.DescriptorOf(id); d != nil {
		return d.Bytes()
	}
	return nil
}

// Descriptors yields the newest descriptors that the relay keeps for others, in no order.
func (r *Relay) Descriptors(yield func(text []byte) bool) {
	if r.cache == nil {
		return
	}
	for _, d := range r.cache.docs.Descriptors() {
		if !yield(d.Bytes()) {
			return
		}
	}
}

// PlainConsensus returns the consensus for those that use descriptors, which the relay keeps for others; nil: there is none.
func (r *Relay) PlainConsensus() []byte {
	if r.cache == nil {
		return nil
	}
	if c := r.cache.docs.Consensus(netdoc.FlavorNS); c != nil {
		return c.Doc.Bytes()
	}
	return nil
}

// Linked returns the relays to which links are open.
func (r *Relay) Linked() []ident.RSAID {
	var out []ident.RSAID
	for _, ch := range r.channels.Channels() {
		if id := ch.Peer().RSA; id != (ident.RSAID{}) {
			out = append(out, id)
		}
	}
	return out
}
