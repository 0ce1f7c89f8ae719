package relay

import (
	"crypto/rand"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// Protocols are the subprotocol versions of this relay, without those of a
// directory cache.
const Protocols = "ChivePQ=1-3,8 ChiveStream=1 Conflux=1 Cons=1-2 Desc=1-4 FlowCtrl=1-2 HSIntro=4-5 HSRend=2 Link=4-5 LinkAuth=3 Microdesc=1-3 Padding=2 Relay=2-6"

// describe makes a descriptor and its extra-info document, signed.
func (r *Relay) describe(now time.Time) (*netdoc.RouterDesc, *netdoc.ExtraInfo, error) {
	live := r.live.Load()
	keys := r.keys.Desc()
	keys.FamilyCerts = live.family.certs(keys.Ed, now)
	directory := r.publisher.directory()
	if !publishTAP(directory) {
		keys.Onion = nil
	}
	extra, err := (&netdoc.ExtraInfo{Nickname: r.cfg.Nickname, Published: now, Stats: r.bandwidth.stats()}).Sign(rand.Reader, keys, now)
	if err != nil {
		return nil, nil, fault.New(fault.KindOf(err), "extra-info document: %w", err)
	}
	addrs := r.Addrs()
	main, _ := first4(addrs)
	policy := live.cfg.policy()
	proto := Protocols
	if r.cache != nil {
		proto = protover.All
	}
	if r.cfg.Tap != nil {
		proto = r.cfg.Tap.Protocols
	}
	rate, burst := live.cfg.advertisedBandwidth()
	d := &netdoc.RouterDesc{
		Nickname: r.cfg.Nickname, Addr: main.Addr(), ORPort: main.Port(), DirPort: r.cfg.DirPort,
		Platform: r.cfg.platform(), Proto: proto, Published: now, Uptime: uint64(max(now.Unix()-r.up.Load(), 0)), Hibernating: r.resting.Load(),
		BandwidthRate: rate, BandwidthBurst: burst, BandwidthObserved: min(r.bandwidth.Observed(), rate),
		HasExtraInfo: true, ExtraInfo: extra.Digest, ExtraInfoSHA256: extra.SHA256,
		TunnelledDir: r.cache != nil, HSDir: r.cache != nil, CachesExtraInfo: r.cache != nil && r.cfg.ExtraInfo,
		Contact: live.cfg.Contact, Family: familyList(directory, live.family),
		Policy: only4(policy), Policy6: policy.Summarize(true),
	}
	for _, a := range addrs {
		if a.Addr().Is6() && len(d.ORAddrs) == 0 {
			d.ORAddrs = []netip.AddrPort{a}
		}
	}
	signed, err := d.Sign(rand.Reader, keys, now)
	if err != nil {
		return nil, nil, fault.New(fault.KindOf(err), "server descriptor: %w", err)
	}
	if len(signed.Text) > maxDescriptor {
		return nil, nil, fault.New(fault.Config, "server descriptor: %d bytes are more than the %d that authorities take: shorten the exit policy or the family", len(signed.Text), maxDescriptor)
	}
	return signed, extra, nil
}

// familyList returns the family members for the descriptor: none if the consensus
// says that family keys are enough. The directory d may be nil.
func familyList(d *netdir.Directory, f *family) []string {
	if d != nil && d.Param("publish-family-list", 1, 0, 1) == 0 {
		return nil
	}
	return f.list
}

// publishTAP reports whether the descriptor has a TAP key, which nobody uses: until
// the consensus says that authorities do without, they may refuse a descriptor that
// lacks one (param-spec, "publish-dummy-tap-key"). The directory d may be nil.
func publishTAP(d *netdir.Directory) bool {
	return d == nil || d.Param("publish-dummy-tap-key", 1, 0, 1) == 1
}

// maxDescriptor is the largest descriptor that C tor's authorities accept, in
// bytes.
const maxDescriptor = 20000

// only4 returns the rules for a descriptor's accept and reject lines: those about
// IPv4, up to the first one that matches every address and port. If there is
// none, only4 adds one at the end.
func only4(p netdoc.ExitPolicy) netdoc.ExitPolicy {
	var out netdoc.ExitPolicy
	for _, rule := range p {
		if rule.Six || rule.Net.IsValid() && rule.Net.Addr().Is6() {
			continue
		}
		out = append(out, rule)
		if !rule.Net.IsValid() && rule.Ports == netdoc.AllPorts {
			return out
		}
	}
	return append(out, netdoc.PolicyRule{Ports: netdoc.AllPorts})
}
