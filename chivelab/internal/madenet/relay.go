package madenet

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"iter"
	"math"
	mrand "math/rand/v2"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// relayBits is the size of relays' RSA keys.
const relayBits = 1024

// made is a relay. It keeps no secret key: it has signed what it has to say.
type made struct {
	desc   *netdoc.RouterDesc
	micro  []byte // its microdescriptor
	status netdoc.RouterStatus
}

// What relays run, and speak.
const (
	relayVersion = "Tor 0.4.9.11"
	relayProto   = "Conflux=1 Cons=1-2 Desc=1-4 DirCache=2 FlowCtrl=1-2 HSDir=2 HSIntro=4-5 HSRend=1-2 Link=1-5 LinkAuth=3 Microdesc=1-3 Padding=2 Relay=2-6"
)

// onionKeys is how many TAP keys there are at most. Nobody uses them any more, but authorities of C tor's want one: relays share some, so
// that they need not be made, and stand so far apart that compression finds none of them twice.
const onionKeys = 200

// makeRelay makes a relay's keys and documents. Half of the relays are guards and a quarter exits, as in the public network.
func makeRelay(rng *mrand.Rand, i int, now time.Time, onion *rsa.PrivateKey) (m made, err error) {
	keys := &netdoc.DescKeys{Onion: onion}
	if keys.Identity, err = rsa.GenerateKey(rand.Reader, relayBits); err != nil {
		return m, fault.Wrap(fault.Local, err)
	}
	master, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		return m, err
	}
	if keys.Signing, err = cert.GenerateExpanded(rand.Reader); err != nil {
		return m, err
	}
	keys.Ed = master.Public()
	keys = netdoc.NewDescKeys(*keys, master.Sign, now.Add(20*24*time.Hour))
	if _, err := rand.Read(keys.NtorSecret[:]); err != nil {
		return m, fault.Wrap(fault.Local, err)
	}
	proto, err := protover.Parse(relayProto)
	if err != nil {
		return m, err
	}
	kilobytes := uint32(min(math.Exp(7.5+1.9*rng.NormFloat64()), 500_000)) + 1
	exit := rng.Float64() < 0.25
	d := &netdoc.RouterDesc{
		Nickname: fmt.Sprintf("made%05d", i), Addr: address(i), ORPort: 9001, Platform: relayVersion + " on Linux", Proto: relayProto, Protocols: proto,
		Published: now.Add(-time.Duration(rng.IntN(12*3600)) * time.Second).Truncate(time.Second), Uptime: uint64(86_400 + rng.IntN(30*86_400)),
		BandwidthRate: 1 << 30, BandwidthBurst: 1 << 30, BandwidthObserved: uint64(kilobytes) * 1000,
		HSDir: true, TunnelledDir: true, Contact: "nobody, this relay was made up for a measurement", Policy: policy(rng, exit),
	}
	if m.desc, err = d.Sign(rand.Reader, keys, now); err != nil {
		return m, err
	}
	ok := false
	m.status = netdoc.RouterStatus{Nickname: d.Nickname, RSA: m.desc.RSA, Descriptor: m.desc.Digest, Published: m.desc.Published, Addr: d.Addr, ORPort: d.ORPort,
		Flags: netdoc.FlagRunning | netdoc.FlagValid | netdoc.FlagV2Dir | netdoc.FlagFast, Version: relayVersion, Proto: relayProto, Protocols: proto,
		HasBandwidth: true, Bandwidth: kilobytes}
	if m.micro, m.status.Microdesc, ok = netdoc.MakeMicrodesc(m.desc, netdoc.NoTAPMethod); !ok {
		return m, fault.New(fault.Local, "the relay %s has no microdescriptor", d.Nickname)
	}
	if rng.Float64() < 0.85 {
		m.status.Flags |= netdoc.FlagStable | netdoc.FlagHSDir
		if kilobytes > 1500 {
			m.status.Flags |= netdoc.FlagGuard
		}
	}
	if exit {
		m.status.Flags |= netdoc.FlagExit
	}
	return m, nil
}

// address is another one for each relay, of a range that nobody has: addresses of one /16 would be neighbours.
func address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(11 + i%100), byte(1 + i/100%250), byte(1 + i/25_000), 7})
}

// policy returns one of a few exit policies.
func policy(rng *mrand.Rand, exit bool) netdoc.ExitPolicy {
	rule := func(accept bool, lo, hi uint16) netdoc.PolicyRule {
		return netdoc.PolicyRule{Accept: accept, Ports: netdoc.PortRange{Lo: lo, Hi: hi}}
	}
	if !exit {
		return netdoc.ExitPolicy{{Ports: netdoc.AllPorts}}
	}
	switch rng.IntN(3) {
	case 0:
		return netdoc.ExitPolicy{rule(true, 53, 53), rule(true, 80, 80), rule(true, 443, 443), {Ports: netdoc.AllPorts}}
	case 1:
		return netdoc.ExitPolicy{rule(false, 25, 25), rule(false, 135, 139), rule(false, 445, 445), rule(false, 6881, 6999), {Accept: true, Ports: netdoc.AllPorts}}
	}
	return netdoc.ExitPolicy{rule(false, 25, 25), {Accept: true, Ports: netdoc.AllPorts}}
}

// members are the relays of the consensus of some hours ago: each hour a part of them leaves, and as many come back.
func (n *Net) members(ago int) iter.Seq[*made] {
	return func(yield func(*made) bool) {
		all := len(n.relays)
		from := ago * max(1, n.opts.Relays/churn) // the first one that is not there, of an order that has nothing to do with identities
		for i := range n.relays {
			if at := (i*step + all - from%all) % all; at < n.outside {
				continue
			}
			if !yield(&n.relays[i]) {
				return
			}
		}
	}
}

// step spreads those that leave over the consensus: it is a prime that divides no number of relays that is possible.
const step = 1_000_003
