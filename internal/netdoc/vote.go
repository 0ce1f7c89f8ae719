package netdoc

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"io"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/protover"
)

// Vote is one authority's opinion about the network (dir-spec, "vote and
// consensus status document formats").
type Vote struct {
	Methods   []int // consensus methods that the authority can use
	Published time.Time
	Lifetime
	VoteDelay, DistDelay                      time.Duration
	HasVersions                               bool // there are client-versions and server-versions lines
	ClientVersions, ServerVersions            string
	Packages                                  []string // arguments of each line; methods before 34 use them
	RecommendedClient, RecommendedRelay       protover.Set
	RequiredClient, RequiredRelay             protover.Set
	KnownFlags                                []string
	FlagThresholds                            string // arguments of the line, for human readers
	Params                                    Params
	BandwidthFileHeaders, BandwidthFileDigest string // arguments; empty: no line
	Source                                    DirSource
	SharedRandParticipate                     bool
	SharedRandCommits                         []string // arguments of each line
	SharedRandPrevious, SharedRandCurrent     *SharedRandom
	Cert                                      *AuthCert
	// Routers is empty in a vote from CheckVotes. Entries reads the relays of any vote.
	Routers  []RouterStatus
	Relays   int  // how many relays it lists
	Measures bool // it has a measured bandwidth of one of them

	Digest [20]byte // SHA-1; consensuses and other authorities name the vote by it
	SHA256 [32]byte
	Text   []byte

	relaysFrom, relaysTo int // in Text
}

// voteParser is the state of parsing a vote.
type voteParser struct {
	v        *Vote
	s        *Scanner
	seen     seen
	in       *Interner
	section  int
	certFrom int                     // offset of the certificate; -1 before it
	known    func(ident.RSAID) error // may be nil
	signedTo int                     // offset of the signature, which is checked before the relays are read
	keep     bool                    // the relays
	rs       RouterStatus            // the last relay
}

// voteOnce lists the keywords that a vote has at most once, before its relays and
// outside the certificate.
var voteOnce = map[string]bool{
	"network-status-version": true, "vote-status": true, "consensus-methods": true, "published": true, "valid-after": true,
	"fresh-until": true, "valid-until": true, "voting-delay": true, "client-versions": true, "server-versions": true,
	"recommended-client-protocols": true, "recommended-relay-protocols": true, "required-client-protocols": true,
	"required-relay-protocols": true, "known-flags": true, "flag-thresholds": true, "params": true, "dir-source": true,
	"contact": true, "bandwidth-file-headers": true, "bandwidth-file-digest": true, "shared-rand-participate": true,
	"shared-rand-previous-value": true, "shared-rand-current-value": true,
}

// maxVote bounds a vote; votes of the public authorities have about 8 MB.
const maxVote = 64 << 20

// ParseVote reads a vote, its certificate included, and checks both signatures.
// The caller must check that the authority is trusted and that the certificate
// has not expired.
func ParseVote(doc []byte) (*Vote, error) { return parseVote(bytes.Clone(doc), nil, true) }

// parseVote reads a vote, which then refers to doc. If known is not nil and returns an error for the
// authority, the vote is refused. The cheapest checks come first: the name of the
// authority, its certificate, the signature of the whole vote. Only then are the
// relays read.
func parseVote(doc []byte, known func(ident.RSAID) error, keep bool) (*Vote, error) {
	if len(doc) > maxVote {
		return nil, fault.New(fault.Resource, "vote of %d bytes", len(doc))
	}
	p := &voteParser{v: &Vote{Text: doc}, in: new(Interner), certFrom: -1, known: known, keep: keep}
	p.s = NewScanner("vote", doc)
	for it, ok := p.s.Next(); ok; it, ok = p.s.Next() {
		if err := p.item(it); err != nil {
			return nil, p.s.Fail("%w", err)
		}
	}
	if p.s.Err() != nil {
		return nil, p.s.Err()
	}
	if p.section != sectionSignatures {
		return nil, fault.New(fault.Directory, "vote: no signature: the document is truncated")
	}
	return p.v, nil
}

// CheckVotes reads a concatenation of votes, at most most of them, and calls each
// for every one. If known is not nil and returns an error for an authority, its
// vote is refused before any other work. The votes refer to b and keep no relays: Entries reads these when they
// are needed. In a vote of the public network's size they take more memory than its text.
func CheckVotes(b []byte, most int, known func(ident.RSAID) error, each func(*Vote, error)) {
	for i, one := range splitSome(b, "network-status-version", most+1) {
		if i == most {
			each(nil, fault.New(fault.Resource, "more than %d votes", most))
			return
		}
		each(parseVote(trimAnnotation(one), known, false))
	}
}

func (p *voteParser) item(it *Item) error {
	if (it.Start == 0) != it.Is("network-status-version") {
		return fault.New(fault.Directory, "network-status-version must come first and once")
	}
	if p.section == sectionSignatures {
		return fault.New(fault.Directory, "after the signature")
	}
	if p.section == sectionPreamble && !it.Is("r") && it.End > maxPreamble {
		return fault.New(fault.Resource, "more than %d bytes before the relays", maxPreamble)
	}
	switch string(it.Keyword) {
	case "r":
		if p.section == sectionPreamble {
			if err := p.endPreamble(it.Start); err != nil {
				return err
			}
		}
		if p.section != sectionRelays {
			return fault.New(fault.Directory, "a relay after the footer")
		}
		return p.router(it)
	case "directory-footer":
		if p.section == sectionPreamble { // a new network has no relays
			if err := p.endPreamble(it.Start); err != nil {
				return err
			}
		}
		if p.section != sectionRelays {
			return fault.New(fault.Directory, "a second footer")
		}
		p.endRouter()
		p.section, p.v.relaysTo = sectionFooter, it.Start
		return nil
	case "directory-signature":
		return p.signature(it)
	}
	switch {
	case p.section == sectionRelays:
		return p.rs.parseItem(it, FlavorNS, p.in)
	case p.section == sectionPreamble && (p.certFrom >= 0 || it.Is(certStart)):
		if p.certFrom < 0 {
			p.certFrom = it.Start
		}
		return nil // read as a document of its own by endPreamble
	case p.section == sectionPreamble:
		return p.preamble(it)
	}
	return nil
}

// endPreamble reads the certificate, which ends where the relays begin.
func (p *voteParser) endPreamble(end int) error {
	err := p.seen.require("vote", "vote-status", "consensus-methods", "published", "valid-after", "fresh-until", "valid-until", "voting-delay", "known-flags", "dir-source")
	if err != nil {
		return err
	}
	if p.certFrom < 0 {
		return fault.New(fault.Directory, "no key certificate before the relays")
	}
	if p.known != nil {
		if err := p.known(p.v.Source.Identity); err != nil {
			return err
		}
	}
	if p.v.Cert, err = ParseAuthCert(p.v.Text[p.certFrom:end]); err != nil {
		return err
	}
	if p.v.Cert.Identity != p.v.Source.Identity {
		return fault.New(fault.Directory, "the key certificate belongs to another authority")
	}
	if !p.v.ValidAfter.Before(p.v.FreshUntil) || !p.v.FreshUntil.Before(p.v.ValidUntil) {
		return fault.New(fault.Directory, "valid-after, fresh-until and valid-until are not in order")
	}
	p.section, p.v.relaysFrom = sectionRelays, end
	return p.verify(end)
}

// verify checks the signature, which is somewhere after offset from.
func (p *voteParser) verify(from int) error {
	const mark = "\ndirectory-signature "
	v := p.v
	i := bytes.Index(v.Text[from:], []byte(mark))
	if i < 0 {
		return fault.New(fault.Directory, "no signature: the document is truncated")
	}
	p.signedTo = from + i + 1
	signed := v.Text[:from+i+len(mark)]
	s := NewScanner("vote", v.Text[p.signedTo:])
	it, ok := s.Next()
	if !ok {
		return s.Err()
	}
	sig, known, err := parseSignature(it)
	if err != nil {
		return err
	}
	if !known || sig.KeyPair != v.Cert.KeyPair() {
		return fault.New(fault.Directory, "the signature was not made with the certificate's key")
	}
	if sig.Algorithm == "sha256" {
		v.SHA256 = sha256.Sum256(signed)
		if err := verifyRSA(v.Cert.SigningKey, v.SHA256[:], sig.Sig); err != nil {
			return err
		}
		v.Digest = sha1.Sum(signed)
		return nil
	}
	v.Digest = sha1.Sum(signed)
	if err := verifyRSA(v.Cert.SigningKey, v.Digest[:], sig.Sig); err != nil {
		return err
	}
	v.SHA256 = sha256.Sum256(signed)
	return nil
}

func (p *voteParser) router(it *Item) error {
	p.endRouter()
	if p.v.Relays == maxRouters {
		return fault.New(fault.Resource, "more than %d relays", maxRouters)
	}
	last := p.rs.RSA
	p.rs = p.rs.again(p.keep)
	if err := p.rs.parseR(it.Args, FlavorNS); err != nil {
		return err
	}
	if p.v.Relays > 0 && bytes.Compare(last[:], p.rs.RSA[:]) >= 0 {
		return fault.New(fault.Directory, "relay %s is out of order", p.rs.Nickname)
	}
	p.v.Relays++
	return nil
}

// endRouter is called after the last line of a relay, if there is one.
func (p *voteParser) endRouter() {
	if p.v.Relays == 0 {
		return
	}
	p.v.Measures = p.v.Measures || p.rs.HasMeasured
	if p.keep {
		p.v.Routers = append(p.v.Routers, p.rs)
	}
}

// signature skips the signature, which verify has checked.
func (p *voteParser) signature(it *Item) error {
	if p.section != sectionFooter {
		return fault.New(fault.Directory, "a signature before the footer")
	}
	if it.Start != p.signedTo {
		return fault.New(fault.Directory, "it is not the first one")
	}
	p.section = sectionSignatures
	return nil
}

func (p *voteParser) preamble(it *Item) (err error) {
	v, a := p.v, it.Args
	if voteOnce[string(it.Keyword)] {
		if err := p.seen.once(it.Keyword); err != nil {
			return err
		}
	}
	switch string(it.Keyword) {
	case "network-status-version":
		if w, _ := a.Next(); string(w) != "3" {
			return fault.New(fault.Directory, "version %q, not 3", clip(w))
		}
	case "vote-status":
		if w, _ := a.Next(); string(w) != "vote" {
			return fault.New(fault.Directory, "%q, not vote", clip(w))
		}
	case "consensus-methods":
		for len(a.Rest()) > 0 && len(v.Methods) < 1000 {
			m, err := a.uint("method", 1<<16)
			if err != nil {
				return err
			}
			v.Methods = append(v.Methods, int(m))
		}
	case "published":
		v.Published, err = a.time()
	case "valid-after":
		v.ValidAfter, err = a.time()
	case "fresh-until":
		v.FreshUntil, err = a.time()
	case "valid-until":
		v.ValidUntil, err = a.time()
	case "voting-delay":
		v.VoteDelay, v.DistDelay, err = parseDelays(a)
	case "client-versions":
		v.ClientVersions, v.HasVersions = string(a.Rest()), true
	case "server-versions":
		v.ServerVersions, v.HasVersions = string(a.Rest()), true
	case "package":
		v.Packages, err = appendPackage(v.Packages, a)
	case "recommended-client-protocols":
		v.RecommendedClient, err = protover.Parse(string(a.line()))
	case "recommended-relay-protocols":
		v.RecommendedRelay, err = protover.Parse(string(a.line()))
	case "required-client-protocols":
		v.RequiredClient, err = protover.Parse(string(a.line()))
	case "required-relay-protocols":
		v.RequiredRelay, err = protover.Parse(string(a.line()))
	case "known-flags":
		v.KnownFlags = strings.Fields(string(a))
	case "flag-thresholds":
		v.FlagThresholds = string(a.Rest())
	case "params":
		v.Params, err = ParseParams(a)
	case "bandwidth-file-headers":
		v.BandwidthFileHeaders = string(a.Rest())
	case "bandwidth-file-digest":
		v.BandwidthFileDigest = string(a.Rest())
	case "dir-source":
		v.Source, err = parseDirSource(a)
	case "contact":
		v.Source.Contact = string(a.Rest())
	case "shared-rand-participate":
		v.SharedRandParticipate = true
	case "shared-rand-commit":
		if len(v.SharedRandCommits) == maxSources {
			return fault.New(fault.Resource, "more than %d", maxSources)
		}
		v.SharedRandCommits = append(v.SharedRandCommits, string(a.Rest()))
	case "shared-rand-previous-value":
		v.SharedRandPrevious, err = parseSharedRandom(a)
	case "shared-rand-current-value":
		v.SharedRandCurrent, err = parseSharedRandom(a)
	}
	return err
}

// Sign encodes the vote with its certificate, signs it with the certificate's
// signing key, and parses the result.
func (v *Vote) Sign(rand io.Reader, key *rsa.PrivateKey) (*Vote, error) {
	b := v.appendPreamble(nil)
	b = append(b, v.Cert.Text...)
	for i := range v.Routers {
		b = v.Routers[i].append(b, FlavorNS, true)
	}
	b = append(b, "directory-footer\ndirectory-signature "...)
	digest := sha1.Sum(b)
	s := Signature{Algorithm: "sha1", KeyPair: v.Cert.KeyPair()}
	var err error
	if s.Sig, err = signRSA(rand, key, digest[:]); err != nil {
		return nil, err
	}
	return ParseVote(s.append(b[:len(b)-len("directory-signature ")]))
}

func (v *Vote) appendPreamble(b []byte) []byte {
	var methods []string
	for _, m := range v.Methods {
		methods = append(methods, itoa(m))
	}
	b = appendLine(b, "network-status-version", "3")
	b = appendLine(b, "vote-status", "vote")
	b = appendLine(b, "consensus-methods", methods...)
	b = append(appendTime(append(b, "published "...), v.Published), '\n')
	b = v.Lifetime.append(b)
	b = appendLine(b, "voting-delay", itoa(int64(v.VoteDelay/time.Second)), itoa(int64(v.DistDelay/time.Second)))
	if v.HasVersions {
		b = appendLine(b, "client-versions", v.ClientVersions)
		b = appendLine(b, "server-versions", v.ServerVersions)
	}
	for _, p := range v.Packages {
		b = appendText(b, "package", p)
	}
	b = appendLine(b, "recommended-relay-protocols", v.RecommendedRelay.String())
	b = appendLine(b, "recommended-client-protocols", v.RecommendedClient.String())
	b = appendLine(b, "required-relay-protocols", v.RequiredRelay.String())
	b = appendLine(b, "required-client-protocols", v.RequiredClient.String())
	b = appendLine(b, "known-flags", strings.Join(v.KnownFlags, " "))
	b = appendText(b, "flag-thresholds", v.FlagThresholds)
	if len(v.Params) > 0 {
		b = appendLine(b, "params", v.Params.String())
	}
	b = appendText(b, "bandwidth-file-headers", v.BandwidthFileHeaders)
	b = appendText(b, "bandwidth-file-digest", v.BandwidthFileDigest)
	b = v.Source.appendVote(b)
	b = appendFlag(b, "shared-rand-participate", v.SharedRandParticipate)
	for _, c := range v.SharedRandCommits {
		b = appendText(b, "shared-rand-commit", c)
	}
	b = appendSharedRandom(b, "shared-rand-previous-value", v.SharedRandPrevious)
	return appendSharedRandom(b, "shared-rand-current-value", v.SharedRandCurrent)
}
