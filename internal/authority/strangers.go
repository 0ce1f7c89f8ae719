package authority

import (
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdoc"
)

// Bounds on uploads. Anybody can sign descriptors of relays that do not exist,
// and each relay that an authority accepts costs memory and tests. In networks of
// private addresses, whose relays share an address, only the total bounds apply.
const (
	// maxStrangers and maxStrangerBytes bound the relays that are not known (see
	// knownLocked), and their documents.
	maxStrangers     = 4096
	maxStrangerBytes = 64 << 20
	// maxFromSource bounds the strangers that one address, or one IPv6 /64, has
	// uploaded.
	maxFromSource = 32
	// perAddress times FlagConfig.MaxServersPerIP is how many known relays that
	// answer there, and how many strangers, the authority accepts on one address.
	perAddress = 4
	// replaceEvery and replaceBurst bound how often one relay's descriptor is
	// replaced.
	replaceEvery = 5 * time.Minute
	replaceBurst = 12
	// uploadEvery and uploadBurst bound the descriptors from one address that are
	// checked, because their signatures take time.
	uploadEvery = 5 * time.Second
	uploadBurst = 128
	// maxUploaders bounds the addresses with such a limit.
	maxUploaders = 1 << 16
)

// errLater says that a descriptor may be accepted later.
var errLater = fault.New(fault.Resource, "try again later")

// uploaders limits how often one address uploads.
type uploaders map[netip.Prefix]*rate.Limiter

// take reports whether an address may upload another descriptor.
func (u uploaders) take(from netip.Addr, now time.Time) bool {
	key := netaddr.Peer(from)
	l := u[key]
	if l == nil {
		if len(u) >= maxUploaders {
			clear(u) // limits for each address do not stop a flood from so many addresses
		}
		l = rate.NewLimiter(rate.Every(uploadEvery), uploadBurst)
		u[key] = l
	}
	return l.AllowN(now, 1)
}

// newRelay makes a relay from a descriptor that an address has uploaded.
func newRelay(d *netdoc.RouterDesc, from netip.Addr, now time.Time) *relay {
	src := from
	if !src.IsValid() {
		src = d.Addr
	}
	return &relay{desc: d, from: from, source: netaddr.Peer(src), network: netaddr.Network(src), since: now, probes: new([families]probe),
		replace: rate.NewLimiter(rate.Every(replaceEvery), replaceBurst)}
}

// own reports whether the descriptor was uploaded from the relay's own address.
func (r *relay) own() bool { return r.from == r.desc.Addr }

func (r *relay) size() int {
	n := len(r.desc.Text)
	if r.extra != nil {
		n += len(r.extra.Text)
	}
	return n
}

// reached reports whether the relay's identities were ever proved: its ORPort
// has answered with them.
func (r *relay) reached() bool { return !r.probes[ipv4].reached.IsZero() }

// knownLocked reports whether a relay is known: it answers tests, or the
// consensus lists it. The caller holds mu.
func (a *Authority) knownLocked(r *relay, now time.Time) bool {
	return a.cfg.Accept.AssumeReachable || a.listed.has(r.desc.RSA) || r.probes[ipv4].running(now)
}

// admitLocked checks the bounds before relay n is added in place of old, which
// may be nil. If a bound is reached, it removes a stranger or returns an error.
// It never removes a known relay. The caller holds mu.
func (a *Authority) admitLocked(n, old *relay, now time.Time) error {
	known := a.knownLocked(n, now)
	if old == nil && !known && !a.cfg.Accept.AllowPrivateAddresses {
		if err := a.admitAddressLocked(n, now); err != nil {
			return err
		}
	}
	c := a.strangersLocked(now)
	have, strangers, bytes := len(a.relays.byRSA), len(c.list), c.bytes+n.size()
	if old != nil {
		have--
		if old.counted != nil {
			strangers--
			bytes -= old.counted.size
		}
	}
	for strangers > 0 && (have >= a.cfg.Accept.MaxRelays || !known && (strangers >= maxStrangers || bytes > maxStrangerBytes)) {
		r := c.victim(old)
		strangers--
		bytes -= r.counted.size
		if a.knownLocked(r, now) { // only since the census
			c.remove(r)
			continue
		}
		if a.removeLocked(r) {
			have--
		}
	}
	if have >= a.cfg.Accept.MaxRelays {
		return fault.New(fault.Resource, "there are already %d relays: %w", have, errLater)
	}
	return nil
}

// admitAddressLocked checks the bounds on relays of one source and on one address before stranger n is added.
// The caller holds mu.
func (a *Authority) admitAddressLocked(n *relay, now time.Time) error {
	var source, address []*relay // strangers
	answering := 0
	for r := range a.relays.onAddress[n.desc.Addr] {
		switch {
		case !a.knownLocked(r, now):
			address = append(address, r)
		case r.probes[ipv4].running(now): // those that answer elsewhere may claim it
			answering++
		}
	}
	for r := range a.relays.bySource[n.source] {
		if !a.knownLocked(r, now) {
			source = append(source, r)
		}
	}
	most := perAddress * a.cfg.Flags.MaxServersPerIP
	if most > 0 && answering >= most {
		return fault.New(fault.Resource, "there are already %d relays on that address", answering)
	}
	if n.from.IsValid() && len(source) >= maxFromSource && !a.replaceLocked(source, n) {
		return fault.New(fault.Resource, "%d relays from that address wait for a test: %w", len(source), errLater)
	}
	if most > 0 && len(address) >= most && !a.replaceLocked(address, n) {
		return fault.New(fault.Resource, "%d relays on that address wait for a test: %w", len(address), errLater)
	}
	return nil
}

// replaceLocked removes one of the strangers in favour of n. It removes one that
// has failed its test or, if n was uploaded from its own address, one that was
// not. It reports whether it found one.
func (a *Authority) replaceLocked(list []*relay, n *relay) bool {
	var worst *relay
	for _, r := range list {
		if !a.relays.has(r) || r.probes[ipv4].failed == 0 && (r.own() || !n.own()) {
			continue
		}
		if worst == nil || r.worse(worst) {
			worst = r
		}
	}
	if worst != nil {
		a.removeLocked(worst)
	}
	return worst != nil
}

// worse reports whether r is less likely than o to be a real relay.
func (r *relay) worse(o *relay) bool {
	if x, y := r.probes[ipv4].failed, o.probes[ipv4].failed; x != y {
		return x > y
	}
	return r.since.Before(o.since)
}

// removeLocked forgets a relay, unless it was forgotten before. The caller holds
// mu.
func (a *Authority) removeLocked(r *relay) bool {
	if !a.relays.has(r) {
		return false
	}
	a.relays.remove(r)
	a.docs.RemoveRelay(r.desc.RSA)
	return true
}
