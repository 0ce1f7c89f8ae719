package dirgen

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

var versions = []string{"Tor 0.4.9.11", "Tor 0.4.9.11", "Tor 0.4.9.11", "Tor 0.4.9.10", "Tor 0.4.9.9", "Tor 0.4.9.8", "Tor 0.4.8.23", "Tor 0.4.8.22", "Tor 0.4.8.21", "Tor 0.4.8.16"}

var protos = []string{
	"Conflux=1 Cons=1-2 Desc=1-4 DirCache=2 FlowCtrl=1-2 HSDir=2 HSIntro=4-5 HSRend=1-2 Link=3-5 LinkAuth=3 Microdesc=1-3 Padding=2 Relay=2-6",
	"Conflux=1 Cons=1-2 Desc=1-2 DirCache=2 FlowCtrl=1-2 HSDir=2 HSIntro=4-5 HSRend=1-2 Link=1-5 LinkAuth=1,3 Microdesc=1-2 Padding=2 Relay=1-4",
	"Cons=1-2 Desc=1-2 DirCache=2 FlowCtrl=1-2 HSDir=2 HSIntro=4-5 HSRend=1-2 Link=1-5 LinkAuth=1,3 Microdesc=1-2 Padding=2 Relay=1-4",
}

var parsedProtos = func() (out []protover.Set) {
	for _, p := range protos {
		s, err := protover.Parse(p)
		if err != nil {
			panic(err) // the text is right above
		}
		out = append(out, s)
	}
	return out
}()

func (n *Net) fill(b []byte) {
	for len(b) > 0 {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], n.rng.Uint64())
		b = b[copy(b, w[:]):]
	}
}

func (n *Net) chance(p float64) bool { return n.rng.Float64() < p }

// addRelay makes a relay: about half are guards and a quarter exits, which
// carry more than their share, as in the public network.
func (n *Net) addRelay() {
	n.made++
	i := n.rng.IntN(len(protos))
	if n.chance(0.8) {
		i = 0
	}
	r := madeRelay{status: netdoc.RouterStatus{
		Nickname: fmt.Sprintf("relay%05d", n.made), Published: time.Date(2038, 1, 1, 0, 0, 0, 0, time.UTC),
		Addr: netip.AddrFrom4([4]byte{byte(1 + n.rng.IntN(223)), byte(n.rng.IntN(256)), byte(n.rng.IntN(256)), byte(1 + n.rng.IntN(254))}), ORPort: []uint16{443, 9001, 9100, 8443}[n.rng.IntN(4)],
		Flags:   netdoc.FlagRunning | netdoc.FlagValid | netdoc.FlagV2Dir,
		Version: versions[n.rng.IntN(len(versions))], Proto: protos[i], Protocols: parsedProtos[i],
		HasBandwidth: true, Bandwidth: n.logNormal(),
	}}
	if n.fill(r.status.RSA[:]); n.made <= len(n.Identities) {
		r.status.RSA = n.Identities[n.made-1]
	}
	n.fill(r.md.Ntor[:])
	n.fill(r.md.Ed[:])
	r.tap = make([]byte, 140)
	n.fill(r.tap)
	if n.made%2 == 0 { // no TAP key: while the network changes, both forms occur
		r.tap = nil
	}
	if n.chance(0.45) {
		var a [16]byte
		n.fill(a[:])
		a[0], a[1] = 0x2a, byte(n.rng.IntN(16))
		r.status.ORAddrs = []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom16(a), r.status.ORPort)}
	}
	if r.status.Bandwidth > 100 {
		r.status.Flags |= netdoc.FlagFast
	}
	if n.chance(0.85) {
		r.status.Flags |= netdoc.FlagStable | netdoc.FlagHSDir
	}
	if r.status.Bandwidth > 1500 && n.chance(0.8) {
		r.status.Flags |= netdoc.FlagGuard
	}
	if n.chance(0.25) {
		r.status.Flags |= netdoc.FlagExit
		r.md.Policy4 = n.policy()
		if len(r.status.ORAddrs) > 0 {
			r.md.Policy6 = n.policy()
		}
	}
	n.relays = append(n.relays, r)
}

// policy returns one of a few hundred policies, most of them one of three.
func (n *Net) policy() *netdoc.PortPolicy {
	switch n.rng.IntN(8) {
	case 0, 1:
		return &netdoc.PortPolicy{Accept: true, Ranges: []netdoc.PortRange{{Lo: 1, Hi: 65535}}}
	case 2, 3, 4:
		return &netdoc.PortPolicy{Ranges: []netdoc.PortRange{{Lo: 25, Hi: 25}, {Lo: 119, Hi: 119}, {Lo: 135, Hi: 139}, {Lo: 445, Hi: 445}, {Lo: 563, Hi: 563}, {Lo: 1214, Hi: 1214}, {Lo: 4661, Hi: 4666}, {Lo: 6346, Hi: 6429}, {Lo: 6699, Hi: 6699}, {Lo: 6881, Hi: 6999}}}
	case 5, 6:
		return &netdoc.PortPolicy{Accept: true, Ranges: []netdoc.PortRange{{Lo: 53, Hi: 53}, {Lo: 80, Hi: 80}, {Lo: 443, Hi: 443}}}
	}
	p := &netdoc.PortPolicy{Accept: true, Ranges: []netdoc.PortRange{{Lo: 80, Hi: 80}, {Lo: 443, Hi: 443}}}
	for port := uint16(1000); port < 60000; port += uint16(1000 * (1 + n.rng.IntN(6))) {
		p.Ranges = append(p.Ranges, netdoc.PortRange{Lo: port, Hi: port + uint16(n.rng.IntN(300))})
	}
	return p
}

// makeFamilies puts some six relays in ten into families, most of them small
// and a few of hundreds; a quarter of the families have a family key too.
func (n *Net) makeFamilies() {
	for at := 0; at < len(n.relays)*6/10; {
		size := 2 + n.rng.IntN(8)
		if n.chance(0.01) {
			size = 50 + n.rng.IntN(150)
		}
		members := n.relays[at:min(at+size, len(n.relays))]
		f := new(netdoc.Family)
		for i := range members {
			f.RSA = append(f.RSA, members[i].status.RSA)
		}
		slices.SortFunc(f.RSA, func(a, b ident.RSAID) int { return slices.Compare(a[:], b[:]) })
		if n.chance(0.25) {
			var key ident.Ed25519ID
			n.fill(key[:])
			f.IDs = []string{"ed25519:" + key.String()}
		}
		for i := range members {
			members[i].md.Family = f
		}
		at += len(members)
	}
}
