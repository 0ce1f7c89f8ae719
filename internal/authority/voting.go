package authority

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// The recommended and required protocols, the same as C tor 0.4.9.15's. Desc=3 and
// Microdesc=3 are documents without TAP keys, Relay=6 is Counter Galois Onion.
const (
	recommendedClient = "Cons=2 Desc=2-4 DirCache=2 FlowCtrl=1-2 HSDir=2 HSIntro=4 HSRend=2 Link=4-5 Microdesc=2-3 Relay=2-6"
	recommendedRelay  = "Cons=2 Desc=2-4 DirCache=2 FlowCtrl=1-2 HSDir=2 HSIntro=4-5 HSRend=2 Link=4-5 LinkAuth=3 Microdesc=2-3 Relay=2-6"
	requiredClient    = "Cons=2 Desc=2-3 FlowCtrl=1 Link=4 Microdesc=2-3 Relay=2"
	requiredRelay     = "Cons=2 Desc=2-3 DirCache=2 FlowCtrl=1-2 HSDir=2 HSIntro=4-5 HSRend=2 Link=4-5 LinkAuth=3 Microdesc=2-3 Relay=2-6"
)

// makeVote makes and signs this authority's vote for a round.
func (a *Authority) makeVote(t timing) (*netdoc.Vote, error) {
	now := a.cfg.Now()
	s := &a.cfg.Schedule
	bw, file := a.bandwidths(now)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.measured = file
	v := &netdoc.Vote{
		Methods: a.cfg.Methods, Packages: a.cfg.Packages, Published: now,
		Lifetime: netdoc.Lifetime{ValidAfter: t.start, FreshUntil: t.start.Add(s.Interval),
			ValidUntil: t.start.Add(s.Interval * time.Duration(s.IntervalsValid))},
		VoteDelay: s.VoteDelay, DistDelay: s.DistDelay,
		HasVersions:    a.cfg.ClientVersions != "" || a.cfg.ServerVersions != "",
		ClientVersions: a.cfg.ClientVersions, ServerVersions: a.cfg.ServerVersions,
		KnownFlags: a.cfg.Flags.knownFlags(), Params: a.cfg.Params,
		Source: netdoc.DirSource{Nickname: a.cfg.Nickname, Identity: a.me, Hostname: a.cfg.Hostname, Addr: a.cfg.addr(),
			DirPort: a.cfg.DirPort.Port(), ORPort: a.cfg.ORPort.Port(), Contact: a.cfg.Contact},
		Cert: a.cfg.Keys.Cert,
	}
	for _, p := range []struct {
		set  *protover.Set
		text string
	}{{&v.RecommendedClient, recommendedClient}, {&v.RecommendedRelay, recommendedRelay}, {&v.RequiredClient, requiredClient}, {&v.RequiredRelay, requiredRelay}} {
		var err error
		if *p.set, err = protover.Parse(p.text); err != nil {
			return nil, err
		}
	}
	v.SharedRandParticipate = true
	v.SharedRandCommits = a.sr.lines()
	v.SharedRandPrevious, v.SharedRandCurrent = a.sr.Previous, a.sr.Current
	if bw != nil {
		v.BandwidthFileHeaders, v.BandwidthFileDigest = bw.Headers, bw.Digest
	}
	all := a.candidatesLocked(bw, now)
	th := a.cfg.Flags.thresholds(all, a.histories.enough(now), a.ignoreAdvertisedLocked(bw), a.cfg.Params)
	v.FlagThresholds = th.String()
	authorities := a.relayIDs()
	for _, c := range all {
		rs, err := a.opinionLocked(c, a.cfg.Flags.flags(c, &th, authorities[c.d.RSA], now), now)
		if err != nil {
			return nil, err
		}
		v.Routers = append(v.Routers, rs)
	}
	return v.Sign(a.cfg.Rand, a.cfg.Keys.Signing)
}

// bandwidths reads the bandwidth file, and also returns it as a document to
// serve; nil without a file. It waits for nothing: without measurements a vote is late for nobody.
func (a *Authority) bandwidths(now time.Time) (*Bandwidths, *dirserver.Doc) {
	if a.cfg.BandwidthFile == "" {
		return nil, nil
	}
	text, err := atomicfile.ReadRegular(a.cfg.BandwidthFile, maxBandwidthFile)
	if err != nil {
		a.log.Warn("bandwidth file cannot be read", "err", err)
		return nil, nil
	}
	bw, err := ParseBandwidths(text, now)
	if err != nil {
		a.log.Warn("bandwidth file cannot be used", "err", err)
	}
	return bw, dirserver.NewDoc(text)
}

func (a *Authority) ignoreAdvertisedLocked(bw *Bandwidths) bool {
	if bw == nil {
		return false
	}
	n := 0
	for id := range bw.Of {
		if a.relays.byRSA[id] != nil {
			n++
		}
	}
	return n > a.cfg.Flags.MinMeasured
}

// maxSilentVoted is how many relays that have never answered a vote may have, as
// not Running. Above it, the vote omits them, so that uploads by strangers do not
// make votes grow. The consensus stays the same: an entry that is not Running
// does not help a relay into the consensus, and a relay that other authorities
// have reached gets in by their votes.
const maxSilentVoted = 256

// silentLocked reports whether the authority knows nothing of a relay except its
// descriptor.
func (a *Authority) silentLocked(r *relay, now time.Time) bool {
	return !r.reached() && !a.knownLocked(r, now)
}

// candidatesLocked returns the relays to vote on, in the order of identities.
func (a *Authority) candidatesLocked(bw *Bandwidths, now time.Time) []*candidate {
	var all []*candidate
	silent, ignore := 0, a.ignoreAdvertisedLocked(bw)
	for _, r := range a.relays.byRSA {
		if a.silentLocked(r, now) {
			silent++
		}
	}
	for _, r := range a.relays.byRSA {
		d := r.desc
		if expired(d, now) || silent > maxSilentVoted && a.silentLocked(r, now) {
			continue
		}
		status := a.list.Load().status(d)
		if status.has(statusReject) || a.cfg.Accept.ApprovedOnly && !status.has(statusApproved) {
			continue // the list has changed since the descriptor came
		}
		c := &candidate{of: r, d: d, status: status, running: a.runningLocked(r, now), exit: generalExit(d.Policy, a.cfg.Accept.AllowPrivateAddresses)}
		a.histories.note(d.RSA, c.running, now)
		c.record = a.histories.record(d.RSA, now)
		c.uptime = time.Duration(min(d.Uptime, 1<<31)) * time.Second
		if age := now.Sub(d.Published); age > 0 {
			c.uptime += age
		}
		// Once this authority has watched for long enough, a relay's word alone does not
		// make it a directory of onion services: it could choose its place on the ring.
		c.seen = c.uptime
		if now.Sub(a.histories.Started) > a.cfg.Flags.MinUptimeHSDir*11/10 {
			c.seen = min(c.uptime, time.Duration(c.record.run)*time.Second)
		}
		c.wasHSDir = a.listed.hsdir(d.RSA, now) // a restart costs it nothing
		c.creditKB = claimed(d)
		if bw != nil {
			c.measuredKB, c.measured = bw.Of[d.RSA], hasKey(bw.Of, d.RSA)
			if c.measured {
				c.creditKB = c.measuredKB
			} else if ignore {
				c.creditKB = 0
			}
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(x, y *candidate) int { return slices.Compare(x.d.RSA[:], y.d.RSA[:]) })
	a.cfg.Flags.markSybils(all, a.relayIDs(), a.cfg.Accept.IPv6)
	return all
}

func hasKey[K comparable, V any](m map[K]V, k K) bool { _, ok := m[k]; return ok }

// claimed returns the bandwidth that a relay claims, up to maxBelievable, in
// kilobytes a second.
func claimed(d *netdoc.RouterDesc) uint32 {
	return uint32(min(d.BandwidthRate, d.BandwidthObserved, maxBelievable) / 1000)
}

// runningLocked reports whether the authority votes Running for a relay.
func (a *Authority) runningLocked(r *relay, now time.Time) bool {
	if r.desc.Hibernating {
		return false
	}
	if a.cfg.Accept.AssumeReachable {
		return true
	}
	for f := range families {
		if _, tested := a.port(r.desc, f); tested && !r.probes[f].running(now) {
			return false
		}
	}
	return true
}

// orAddr6 returns a relay's IPv6 ORPort.
func orAddr6(d *netdoc.RouterDesc) (netip.AddrPort, bool) {
	for _, o := range d.ORAddrs {
		if o.Addr().Is6() {
			return o, true
		}
	}
	return netip.AddrPort{}, false
}

// opinionLocked makes a relay's entry, and its microdescriptors.
func (a *Authority) opinionLocked(c *candidate, flags netdoc.Flags, now time.Time) (netdoc.RouterStatus, error) {
	d := c.d
	rs := netdoc.RouterStatus{
		Nickname: d.Nickname, RSA: d.RSA, Descriptor: d.Digest, Published: d.Published,
		Addr: d.Addr, ORPort: d.ORPort, DirPort: d.DirPort, Flags: flags,
		Version: versionOf(d.Platform), Proto: d.Proto, HasBandwidth: true, Bandwidth: claimed(d),
		Policy: c.of.madeOf(a.cfg.Methods).policy, Ed: d.Ed, EdListed: true,
	}
	if c.measured && !flags.Has(netdoc.FlagAuthority) { // authorities should not relay much
		rs.HasMeasured, rs.Measured = true, c.measuredKB
	}
	if o, ok := orAddr6(d); ok && a.cfg.Accept.IPv6 && c.running {
		rs.ORAddrs = []netip.AddrPort{o}
	}
	rs.Stats = "wfu=" + strconv.FormatFloat(c.record.wfu, 'f', 6, 64) + " tk=" + strconv.FormatInt(int64(c.record.tk), 10) +
		" mtbf=" + strconv.FormatFloat(c.record.mtbf, 'f', 0, 64)
	for _, m := range c.of.made.micro {
		if err := a.docs.AddMicrodesc(m.digest, m.text); err != nil {
			return rs, err
		}
		rs.Microdescs = append(rs.Microdescs, microLine(m.methods, m.digest))
	}
	return rs, nil
}

// made has the results for the vote that can take long to compute, because a
// relay chose its descriptor so. They are computed once, before the first vote on
// the descriptor.
type made struct {
	policy *netdoc.PortPolicy
	micro  []microdesc
}

// microdesc is a microdescriptor, and the consensus methods that make it.
type microdesc struct {
	methods []string
	text    []byte
	digest  [32]byte
}

// madeOf returns these results for the relay's descriptor.
func (r *relay) madeOf(methods []int) *made {
	if r.made != nil {
		return r.made
	}
	r.made = &made{policy: r.desc.Policy.Summarize(false)}
	for _, n := range methods {
		text, digest, ok := netdoc.MakeMicrodesc(r.desc, n)
		if !ok {
			continue // a consensus of this method does not list the relay for clients
		}
		last := len(r.made.micro) - 1
		if last < 0 || r.made.micro[last].digest != digest {
			r.made.micro = append(r.made.micro, microdesc{text: text, digest: digest})
			last++
		}
		m := &r.made.micro[last]
		m.methods = append(m.methods, strconv.Itoa(n))
	}
	return r.made
}

// versionOf returns the version for a "v" line. As in C tor, it accepts only
// platforms that begin with "Tor", and includes a revision such as "(r1234)".
func versionOf(platform string) string {
	if !strings.HasPrefix(platform, "Tor ") {
		return ""
	}
	w := strings.SplitN(platform, " ", 4)
	if len(w) < 3 {
		return ""
	}
	if strings.HasPrefix(w[2], "(r") {
		return strings.Join(w[:3], " ")
	}
	return strings.Join(w[:2], " ")
}

// dialTCP opens a connection within a time limit.
func (a *Authority) dialTCP(ctx context.Context, addr netip.AddrPort, limit time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := a.cfg.Dial(ctx, addr)
	if err != nil {
		return nil, fault.New(fault.Network, "connect: %w", hideAddr(err))
	}
	return c, nil
}
