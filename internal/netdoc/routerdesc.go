package netdoc

import (
	"bytes"
	"crypto/rsa"
	"net/netip"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/protover"
)

// RouterDesc is a relay's own description of itself (dir-spec, "server
// descriptor format").
type RouterDesc struct {
	Nickname  string
	Addr      netip.Addr // IPv4
	ORPort    uint16
	DirPort   uint16           // zero: none
	ORAddrs   []netip.AddrPort // "or-address" lines
	Platform  string
	Proto     string
	Protocols protover.Set
	Published time.Time
	Uptime    uint64 // seconds

	// Bytes per second: sustained, in bursts, and observed.
	BandwidthRate, BandwidthBurst, BandwidthObserved uint64

	HasExtraInfo    bool
	ExtraInfo       [20]byte // SHA-1 digest of the extra-info document
	ExtraInfoSHA256 [32]byte // its SHA-256 digest; zero when absent

	RSA         ident.RSAID
	Ed          ident.Ed25519ID
	CertExpires time.Time // when the first of its certificates expires: of the signing key, the ntor key, a family
	OnionKey    []byte    // TAP key in PKCS#1 form; nil: none, which is common now
	Ntor        ident.X25519Key

	Hibernating, CachesExtraInfo, HSDir, TunnelledDir bool

	Contact   string
	Family    []string          // words of the "family" line
	FamilyIDs []ident.Ed25519ID // family keys that certify the relay
	Policy    ExitPolicy
	Policy6   *PortPolicy // "ipv6-policy"; nil: none

	Digest [20]byte // SHA-1; a consensus names the descriptor by it
	Text   []byte   // the document; set by ParseRouterDesc
}

const (
	routerStart   = "router"
	maxDescriptor = 1 << 16
	edCertObject  = "ED25519 CERT"
)

// ParseRouterDescs reads a concatenation of descriptors, with or without C
// tor's annotations, and calls each for every one.
func ParseRouterDescs(b []byte, now time.Time, each func(*RouterDesc, error)) {
	for _, one := range splitDocs(b, routerStart) {
		each(ParseRouterDesc(trimAnnotation(one), now))
	}
}

// trimAnnotation removes the annotations of the next document from the end of
// one.
func trimAnnotation(one []byte) []byte {
	if i := bytes.Index(one, []byte("\n@")); i >= 0 {
		return one[:i+1]
	}
	return one
}

// descParser is the state of parsing a descriptor.
type descParser struct {
	d         *RouterDesc
	s         *Scanner
	seen      seen
	n         int // items so far
	now       time.Time
	judge     func(*RouterDesc) error // may be nil
	identity  *cert.Ed25519           // the signing key's certificate
	signing   *rsa.PublicKey
	onion     *rsa.PublicKey
	cross     []byte        // the onion key's cross-certificate
	ntorCross *cert.Ed25519 // the ntor key's cross-certificate
	ntorSign  uint8
	families  []*cert.Ed25519
	edSigEnd  int // offset after "router-sig-ed25519 "
	edSig     [64]byte
	last      string // keyword of the previous item
}

// ParseRouterDesc reads one descriptor and checks all that it proves: the
// signatures by both identities, the cross-certificates of both onion keys,
// its family certificates, and that no certificate has expired at now.
func ParseRouterDesc(doc []byte, now time.Time) (*RouterDesc, error) {
	return JudgeRouterDesc(doc, now, nil)
}

// JudgeRouterDesc is ParseRouterDesc, except that it calls judge, which may be
// nil, before it verifies any signature. If judge returns an error, no time is
// spent on signatures. FamilyIDs is not set yet at that time.
func JudgeRouterDesc(doc []byte, now time.Time, judge func(*RouterDesc) error) (*RouterDesc, error) {
	if len(doc) > maxDescriptor {
		return nil, fault.New(fault.Resource, "router descriptor of %d bytes", len(doc))
	}
	p := &descParser{d: &RouterDesc{Text: bytes.Clone(doc)}, now: now, judge: judge}
	p.s = NewScanner("router descriptor", p.d.Text)
	for it, ok := p.s.Next(); ok; it, ok = p.s.Next() {
		if err := p.item(it); err != nil {
			return nil, p.s.Fail("%w", err)
		}
		p.n++
		p.last = string(it.Keyword)
	}
	if p.s.Err() != nil {
		return nil, p.s.Err()
	}
	if p.last != "router-signature" {
		return nil, fault.New(fault.Directory, "router descriptor: it does not end with router-signature")
	}
	return p.d, nil
}

// descOnce lists the keywords that a descriptor has at most once.
var descOnce = map[string]bool{
	"identity-ed25519": true, "master-key-ed25519": true, "bandwidth": true, "platform": true, "published": true,
	"fingerprint": true, "hibernating": true, "uptime": true, "onion-key": true, "onion-key-crosscert": true,
	"ntor-onion-key": true, "ntor-onion-key-crosscert": true, "signing-key": true, "ipv6-policy": true, "contact": true,
	"family": true, "caches-extra-info": true, "extra-info-digest": true, "hidden-service-dir": true, "proto": true,
	"tunnelled-dir-server": true, "router-sig-ed25519": true, "router-signature": true,
}

func (p *descParser) item(it *Item) (err error) {
	d, a := p.d, it.Args
	switch {
	case (p.n == 0) != it.Is(routerStart):
		return fault.New(fault.Directory, "%s must come first and once", routerStart)
	case (p.n == 1) != it.Is("identity-ed25519"):
		return fault.New(fault.Directory, "identity-ed25519 must come second and once")
	case p.last == "router-signature":
		return fault.New(fault.Directory, "after the signature")
	case (p.last == "router-sig-ed25519") != it.Is("router-signature"):
		return fault.New(fault.Directory, "the two signatures must come last, one after the other")
	case descOnce[string(it.Keyword)]:
		if err := p.seen.once(it.Keyword); err != nil {
			return err
		}
	}
	switch string(it.Keyword) {
	case routerStart:
		return d.parseRouter(a)
	case "identity-ed25519":
		p.identity, err = edCert(it, edCertObject)
	case "master-key-ed25519":
		err = a.base64("key", d.Ed[:])
	case "bandwidth":
		return d.parseBandwidth(a)
	case "platform":
		d.Platform = string(a.Rest())
	case "proto":
		d.Proto = string(a.line())
		d.Protocols, err = protover.Parse(d.Proto)
	case "published":
		d.Published, err = a.time()
	case "fingerprint":
		d.RSA, err = ident.ParseRSAID(strings.Join(strings.Fields(string(a)), ""))
	case "hibernating":
		w, _ := a.Next()
		d.Hibernating = string(w) == "1"
	case "uptime":
		d.Uptime, err = a.uint("uptime", 1<<40)
	case "onion-key":
		if p.onion, _, err = parseRSAKey(it, 1024); err == nil {
			d.OnionKey, err = it.Object(rsaKeyObject)
		}
	case "onion-key-crosscert":
		p.cross, err = it.Object("CROSSCERT")
	case "ntor-onion-key":
		err = a.base64("key", d.Ntor[:])
	case "ntor-onion-key-crosscert":
		var sign uint64
		if sign, err = a.uint("sign", 1); err == nil {
			p.ntorSign = uint8(sign)
			p.ntorCross, err = edCert(it, edCertObject)
		}
	case "signing-key":
		return p.signingKey(it)
	case "accept", "reject":
		return d.addRule(it)
	case "ipv6-policy":
		d.Policy6, err = ParsePortPolicy(a)
	case "contact":
		d.Contact = string(a.Rest())
	case "family":
		d.Family = strings.Fields(string(a))
	case "family-cert":
		return p.familyCert(it)
	case "caches-extra-info":
		d.CachesExtraInfo = true
	case "hidden-service-dir":
		d.HSDir = true
	case "tunnelled-dir-server":
		d.TunnelledDir = true
	case "extra-info-digest":
		return d.parseExtraInfo(a)
	case "or-address":
		var ap netip.AddrPort
		if ap, err = a.addrPort(); err == nil && len(d.ORAddrs) < maxORAddrs {
			d.ORAddrs = append(d.ORAddrs, ap)
		}
	case "router-sig-ed25519":
		p.edSigEnd = it.Start + len("router-sig-ed25519 ")
		return a.base64("signature", p.edSig[:])
	case "router-signature":
		return p.verify(it)
	}
	return err
}

func edCert(it *Item, object string) (*cert.Ed25519, error) {
	b, err := it.Object(object)
	if err != nil {
		return nil, err
	}
	return cert.ParseEd25519(b)
}

func (d *RouterDesc) parseRouter(a Args) error {
	nick, err := a.need("nickname")
	if err != nil {
		return err
	}
	if !validNickname(nick) {
		return fault.New(fault.Directory, "nickname %q", clip(nick))
	}
	d.Nickname = string(nick)
	if d.Addr, err = a.addr4(); err != nil {
		return err
	}
	or, err := a.uint("ORPort", 65535)
	if err != nil {
		return err
	}
	if _, err = a.uint("SOCKSPort", 65535); err != nil {
		return err
	}
	dir, err := a.uint("DirPort", 65535)
	d.ORPort, d.DirPort = uint16(or), uint16(dir)
	return err
}

func (d *RouterDesc) parseBandwidth(a Args) (err error) {
	for _, v := range []*uint64{&d.BandwidthRate, &d.BandwidthBurst, &d.BandwidthObserved} {
		if *v, err = a.uint("bandwidth", 1<<62); err != nil {
			return err
		}
	}
	return nil
}

func (d *RouterDesc) parseExtraInfo(a Args) error {
	d.HasExtraInfo = true
	if err := a.hex("digest", d.ExtraInfo[:]); err != nil {
		return err
	}
	w, ok := a.Next()
	if !ok {
		return nil
	}
	return decodeBase64("SHA-256 digest", d.ExtraInfoSHA256[:], w)
}

func (d *RouterDesc) addRule(it *Item) error {
	if len(d.Policy) == maxRules {
		return fault.New(fault.Resource, "more than %d rules", maxRules)
	}
	a := it.Args
	w, err := a.need("pattern")
	if err != nil {
		return err
	}
	r, err := ParsePolicyRule(it.Is("accept"), string(w))
	d.Policy = append(d.Policy, r)
	return err
}

func (p *descParser) signingKey(it *Item) error {
	k, id, err := parseRSAKey(it, 1024)
	if err != nil {
		return err
	}
	if k.N.BitLen() != 1024 {
		return fault.New(fault.Directory, "a key of %d bits, not 1024", k.N.BitLen())
	}
	if p.seen["fingerprint"] && id != p.d.RSA {
		return fault.New(fault.Directory, "the key does not match the fingerprint")
	}
	p.signing, p.d.RSA = k, id
	return nil
}

// maxFamilyCerts bounds the family keys of one relay.
const maxFamilyCerts = 16

func (p *descParser) familyCert(it *Item) error {
	if len(p.families) == maxFamilyCerts {
		return fault.New(fault.Resource, "more than %d", maxFamilyCerts)
	}
	c, err := edCert(it, "FAMILY CERT")
	p.families = append(p.families, c)
	return err
}
