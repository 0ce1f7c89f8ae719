package relay

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/channel"
)

// flooded hears from which link a circuit came that was destroyed because more cells waited
// for the next relay than an honest client sends.
func (r *Relay) flooded(ch *channel.Channel) {
	if !r.dos.listed(ch.Link()) {
		r.dos.flooded(ch.RemoteAddr())
	}
}

// flooded counts such a circuit of an address. Too many bring the ban of those who create too
// many circuits.
func (d *dos) flooded(a netip.Addr) {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &d.params
	if !c.circuits || c.floods == 0 {
		return
	}
	p := d.peerLocked(a, now)
	if now.Before(p.banCirc) {
		return
	}
	if p.floods++; p.floods >= c.floods {
		p.floods, p.banCirc = 0, now.Add(banTime(c.circuitBan))
	}
}

// banTime makes a ban up to half as long again, as in C tor: who floods must not know
// when to come back.
func banTime(least time.Duration) time.Duration { return least + rand.N(least/2+1) }
