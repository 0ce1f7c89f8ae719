package netdoc

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"net/netip"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/protover"
)

// Flavor is a kind of consensus.
type Flavor uint8

// The flavors.
const (
	FlavorNS        Flavor = iota // the full consensus
	FlavorMicrodesc               // the consensus that names microdescriptors
)

// String returns the flavor's name as in documents and URLs.
func (f Flavor) String() string {
	if f == FlavorMicrodesc {
		return "microdesc"
	}
	return "ns"
}

// Lifetime holds the times for which a consensus is valid.
type Lifetime struct{ ValidAfter, FreshUntil, ValidUntil time.Time }

// reasonablyLive is how long outside its validity a consensus may still be used
// (dir-spec 5.1).
const reasonablyLive = 24 * time.Hour

// ReasonablyLive reports whether a consensus is valid at now, or at most a day outside its
// validity.
func (l *Lifetime) ReasonablyLive(now time.Time) bool {
	return !now.Before(l.ValidAfter.Add(-reasonablyLive)) && !now.After(l.ValidUntil.Add(reasonablyLive))
}

// SharedRandom is a random value that the authorities agreed on (srv-spec).
type SharedRandom struct {
	Reveals int // how many authorities contributed
	Value   [32]byte
}

// DirSource is an authority whose vote went into a consensus.
type DirSource struct {
	Nickname   string
	Identity   ident.RSAID // v3 identity
	Hostname   string
	Addr       netip.Addr
	DirPort    uint16
	ORPort     uint16
	Contact    string
	VoteDigest [20]byte
}

// Preamble holds the lines of a consensus before its relays.
type Preamble struct {
	Flavor Flavor
	Method int
	Lifetime
	VoteDelay, DistDelay           time.Duration
	ClientVersions, ServerVersions string
	Packages                       []string // arguments of each line; none since method 34
	KnownFlags                     []string
	RecommendedClient              protover.Set
	RecommendedRelay               protover.Set
	RequiredClient, RequiredRelay  protover.Set
	Params                         Params
	SharedRandPrevious             *SharedRandom
	SharedRandCurrent              *SharedRandom
	Sources                        []DirSource
}

// Consensus is a network status that the authorities have signed or will sign.
type Consensus struct {
	Preamble
	Routers          []RouterStatus
	BandwidthWeights Params
	Signatures       []Signature

	// Digests of the signed part, up to the blank after the first
	// "directory-signature"; set by ParseConsensus.
	SHA1       [20]byte
	SHA256     [32]byte
	SHA3Signed [32]byte // the digest in X-Or-Diff-From-Consensus
}

// maxRouters bounds a consensus: the public network has fewer than 10,000.
const maxRouters = 65535

// ParseConsensus reads a consensus of either flavor and checks its form, but not
// its signatures. It checks that the relays are in the order of their
// identities. If each is not nil, it is called for every relay in this order,
// and Routers stays empty, which saves the memory of the list. The entry is
// valid only until each returns.
func ParseConsensus(doc []byte, in *Interner, each func(*RouterStatus) error) (*Consensus, error) {
	if in == nil {
		in = new(Interner)
	}
	p := consensusParser{s: NewScanner("consensus", doc), in: in, each: each, c: new(Consensus)}
	if err := p.run(); err != nil {
		return nil, err
	}
	p.c.digest(doc[:p.signedEnd])
	return p.c, nil
}

func (c *Consensus) digest(signed []byte) {
	c.SHA1, c.SHA256, c.SHA3Signed = sha1.Sum(signed), sha256.Sum256(signed), sha3.Sum256(signed)
}

type consensusParser struct {
	s         *Scanner
	in        *Interner
	each      func(*RouterStatus) error
	c         *Consensus
	seen      seen
	rs        RouterStatus
	started   bool // rs holds an entry
	last      ident.RSAID
	n         int
	section   int // 0 preamble, 1 relays, 2 footer, 3 signatures
	hasM      bool
	signedEnd int
}

func (p *consensusParser) run() error {
	for it, ok := p.s.Next(); ok; it, ok = p.s.Next() {
		if err := p.item(it); err != nil {
			return p.s.Fail("%w", err)
		}
	}
	if err := p.s.Err(); err != nil {
		return err
	}
	if p.section != 3 {
		return fault.New(fault.Directory, "consensus: no signature: the document is truncated")
	}
	return nil
}

func (p *consensusParser) item(it *Item) error {
	switch {
	case it.Is("r"):
		if p.section > 1 {
			return fault.New(fault.Directory, "a relay after the footer")
		}
		if p.section == 0 {
			if err := p.c.checkPreamble(&p.seen); err != nil {
				return err
			}
			p.section = 1
		}
		return p.startRouter(it)
	case it.Is("directory-footer"):
		return p.footer()
	case it.Is("directory-signature"):
		return p.signature(it)
	}
	switch p.section {
	case 0:
		if it.End > maxPreamble {
			return fault.New(fault.Resource, "more than %d bytes before the relays", maxPreamble)
		}
		return p.c.Preamble.parseItem(it, &p.seen, it.Start == 0)
	case 1:
		if it.Is("m") {
			p.hasM = true
		}
		return p.rs.parseItem(it, p.c.Flavor, p.in)
	case 2:
		if it.Is("bandwidth-weights") {
			var err error
			p.c.BandwidthWeights, err = ParseParams(it.Args)
			return err
		}
	case 3:
		return fault.New(fault.Directory, "after a signature")
	}
	return nil
}

func (p *consensusParser) startRouter(it *Item) error {
	if err := p.endRouter(); err != nil {
		return err
	}
	addrs := p.rs.ORAddrs[:0]
	if p.each == nil {
		addrs = nil
	}
	p.rs, p.started, p.hasM = RouterStatus{ORAddrs: addrs}, true, false
	return p.rs.parseR(it.Args, p.c.Flavor)
}

// endRouter delivers the complete entry.
func (p *consensusParser) endRouter() error {
	if !p.started {
		return nil
	}
	p.started = false
	if p.c.Flavor == FlavorMicrodesc && !p.hasM {
		return fault.New(fault.Directory, "the previous relay has no microdescriptor digest")
	}
	if p.n > 0 && bytes.Compare(p.last[:], p.rs.RSA[:]) >= 0 {
		return fault.New(fault.Directory, "the previous relay is out of order")
	}
	if p.n == maxRouters {
		return fault.New(fault.Resource, "more than %d relays", maxRouters)
	}
	p.last = p.rs.RSA
	p.n++
	if p.each != nil {
		return p.each(&p.rs)
	}
	p.c.Routers = append(p.c.Routers, p.rs)
	return nil
}

func (p *consensusParser) footer() error {
	if p.section >= 2 {
		return fault.New(fault.Directory, "a second footer")
	}
	if p.section == 0 { // a consensus without relays is possible in a new network
		if err := p.c.checkPreamble(&p.seen); err != nil {
			return err
		}
	}
	p.section = 2
	return p.endRouter()
}

func (p *consensusParser) signature(it *Item) error {
	if p.section < 2 {
		return fault.New(fault.Directory, "a signature before the footer")
	}
	if p.section == 2 {
		p.section = 3
		p.signedEnd = it.Start + len("directory-signature ")
	}
	if len(p.c.Signatures) == maxSignatures {
		return fault.New(fault.Resource, "more than %d signatures", maxSignatures)
	}
	sig, known, err := parseSignature(it)
	if err == nil && known {
		p.c.Signatures = append(p.c.Signatures, sig)
	}
	return err
}
