// Package dirgen makes up networks: a consensus of any number of relays with
// the public network's proportions, its microdescriptors, and authorities that
// sign it. Tests and benchmarks use it; the relays do not exist.
package dirgen

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"math"
	mrand "math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// Options say what network to make. Zero fields get defaults.
type Options struct {
	Relays      int           // 9000
	Authorities int           // 3
	Seed        uint64        // of everything but the keys' bits
	ValidAfter  time.Time     // 2026-01-01 00:00:00 UTC
	Interval    time.Duration // an hour; the consensus is valid for three
	Params      netdoc.Params // of the consensus, besides its own or in their place
	OfRelays    string        // the protocols that it requires of relays; what clients need

	Identities []ident.RSAID // of the first relays; the others' are made up, too

	Change func(*netdoc.Preamble) // may change what the consensus says; nil: nothing
}

// Net is a made-up network with its documents.
type Net struct {
	Options
	Network    *netdir.Network
	Certs      []byte // all authorities' key certificates
	Consensus  []byte // signed, flavor microdesc
	Microdescs []byte // of all relays, in the order of the consensus
	ByDigest   map[[32]byte][]byte

	auths  []authority
	relays []madeRelay
	rng    *mrand.Rand
	made   int
}

type authority struct {
	identity, signing *rsa.PrivateKey
	cert              *netdoc.AuthCert
}

type madeRelay struct {
	status netdoc.RouterStatus
	md     netdoc.Microdesc
	tap    []byte // nil: none
}

// New makes a network. Keys are of 1024 bits: they guard nothing.
func New(opt Options) (*Net, error) {
	if opt.Relays == 0 {
		opt.Relays = 9000
	}
	if opt.Authorities == 0 {
		opt.Authorities = 3
	}
	if opt.ValidAfter.IsZero() {
		opt.ValidAfter = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if opt.Interval == 0 {
		opt.Interval = time.Hour
	}
	n := &Net{Options: opt, rng: mrand.New(mrand.NewPCG(opt.Seed, 1)), Network: &netdir.Network{Name: "made-up", Testing: netdir.DefaultTesting()}}
	for i := range opt.Authorities {
		if err := n.addAuthority(i); err != nil {
			return nil, err
		}
	}
	for range opt.Relays {
		n.addRelay()
	}
	n.makeFamilies()
	return n, n.Publish(opt.ValidAfter)
}

func (n *Net) addAuthority(i int) error {
	var a authority
	var err error
	if a.identity, err = rsa.GenerateKey(rand.Reader, 1024); err != nil {
		return err
	}
	if a.signing, err = rsa.GenerateKey(rand.Reader, 1024); err != nil {
		return err
	}
	from := n.ValidAfter.Add(-24 * time.Hour)
	if err = a.certify(from, from.AddDate(1, 0, 0)); err != nil {
		return err
	}
	n.auths = append(n.auths, a)
	n.Certs = append(n.Certs, a.cert.Text...)
	n.Network.Authorities = append(n.Network.Authorities, netdir.Authority{
		Nickname: fmt.Sprintf("auth%d", i), V3Ident: a.cert.Identity, RSA: ident.RSAID{0xA0, byte(i)},
		ORPorts: []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 9001)},
	})
	return nil
}

func (a *authority) certify(from, until time.Time) (err error) {
	a.cert, err = netdoc.MakeAuthCert(rand.Reader, a.identity, a.signing, netip.AddrPort{}, from, until)
	return err
}

// Certify gives the authorities new certificates for the signing keys that they have, as
// tor-gencert --reuse does.
func (n *Net) Certify(from, until time.Time) error {
	n.Certs = nil
	for i := range n.auths {
		if err := n.auths[i].certify(from, until); err != nil {
			return err
		}
		n.Certs = append(n.Certs, n.auths[i].cert.Text...)
	}
	return nil
}

// Rekey gives one authority another signing key, and a certificate for it.
func (n *Net) Rekey(i int, from, until time.Time) (err error) {
	a := &n.auths[i]
	old := a.cert.Text
	if a.signing, err = rsa.GenerateKey(rand.Reader, 1024); err != nil {
		return err
	}
	if err = a.certify(from, until); err == nil {
		n.Certs = bytes.Replace(n.Certs, old, a.cert.Text, 1)
	}
	return err
}

// Churn replaces a part of the relays by others.
func (n *Net) Churn(part float64) {
	drop := int(part * float64(len(n.relays)))
	n.rng.Shuffle(len(n.relays), func(i, j int) { n.relays[i], n.relays[j] = n.relays[j], n.relays[i] })
	n.relays = n.relays[drop:]
	for range drop {
		n.addRelay()
	}
}

// Publish makes the consensus that is valid after the given time, of the
// relays there are.
func (n *Net) Publish(validAfter time.Time) error {
	slices.SortFunc(n.relays, func(a, b madeRelay) int { return slices.Compare(a.status.RSA[:], b.status.RSA[:]) })
	c := &netdoc.Consensus{Preamble: n.preamble(validAfter), BandwidthWeights: weights()}
	n.Microdescs, n.ByDigest = nil, make(map[[32]byte][]byte, len(n.relays))
	for i := range n.relays {
		r := &n.relays[i]
		start := len(n.Microdescs)
		n.Microdescs = r.md.AppendMicrodesc(n.Microdescs, r.tap)
		r.status.Microdesc = r.md.Digest
		n.ByDigest[r.md.Digest] = slices.Clone(n.Microdescs[start:])
		c.Routers = append(c.Routers, r.status)
	}
	c.AppendUnsigned(nil)
	for _, a := range n.auths {
		if err := c.Sign(rand.Reader, a.cert.Identity, a.signing); err != nil {
			return err
		}
	}
	n.Consensus = c.Append(nil)
	return nil
}

// Directory returns the directory of the network's documents, all of them.
func (n *Net) Directory() (*netdir.Directory, error) {
	var l netdir.Loader
	d, _, err := l.Consensus(n.Consensus, nil)
	if err != nil {
		return nil, err
	}
	d, _, err = l.Microdescs(d, n.Microdescs, nil)
	return d, err
}

func (n *Net) preamble(validAfter time.Time) netdoc.Preamble {
	need, err := protover.Parse("Cons=2 Desc=2 FlowCtrl=1 Link=4 Microdesc=2 Relay=2")
	if err != nil {
		panic(err) // the text is right there
	}
	ofRelays := need
	if n.OfRelays != "" {
		if ofRelays, err = protover.Parse(n.OfRelays); err != nil {
			panic(err) // the test's mistake
		}
	}
	p := netdoc.Preamble{
		Flavor: netdoc.FlavorMicrodesc, Method: netdoc.NoTAPMethod,
		Lifetime:  netdoc.Lifetime{ValidAfter: validAfter, FreshUntil: validAfter.Add(n.Interval), ValidUntil: validAfter.Add(3 * n.Interval)},
		VoteDelay: 5 * time.Minute, DistDelay: 5 * time.Minute,
		ClientVersions: "0.4.9.11", ServerVersions: "0.4.9.11",
		KnownFlags:        []string{"Authority", "BadExit", "Exit", "Fast", "Guard", "HSDir", "NoEdConsensus", "Running", "Stable", "StaleDesc", "Sybil", "V2Dir", "Valid"},
		RecommendedClient: need, RecommendedRelay: need, RequiredClient: need, RequiredRelay: ofRelays,
		Params: slices.Clone(n.Params),
	}
	for _, own := range (netdoc.Params{{Name: "cc_alg", Value: 2}, {Name: "guard-n-primary-guards-to-use", Value: 2}}) {
		if !slices.ContainsFunc(p.Params, func(q netdoc.Param) bool { return q.Name == own.Name }) {
			p.Params = append(p.Params, own)
		}
	}
	slices.SortFunc(p.Params, func(a, b netdoc.Param) int { return strings.Compare(a.Name, b.Name) })
	for i, a := range n.auths {
		p.Sources = append(p.Sources, netdoc.DirSource{Nickname: fmt.Sprintf("auth%d", i), Identity: a.cert.Identity, Hostname: "192.0.2.1", Addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), ORPort: 9001, Contact: "nobody"})
	}
	if n.Change != nil {
		n.Change(&p)
	}
	return p
}

// weights are those of the public network of 2026-07-27.
func weights() netdoc.Params {
	p, err := netdoc.ParseParams(netdoc.Args("Wbd=817 Wbe=0 Wbg=4040 Wbm=10000 Wdb=10000 Web=10000 Wed=8366 Wee=10000 Weg=8366 Wem=10000 Wgb=10000 Wgd=817 Wgg=5960 Wgm=5960 Wmb=10000 Wmd=817 Wme=0 Wmg=4040 Wmm=10000"))
	if err != nil {
		panic(err) // the text is right there
	}
	return p
}

// logNormal returns a bandwidth in kilobytes a second, with a heavy tail.
func (n *Net) logNormal() uint32 {
	return uint32(min(math.Exp(7.5+1.9*n.rng.NormFloat64()), 500_000)) + 1
}
