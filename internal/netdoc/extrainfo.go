package netdoc

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"io"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// ExtraInfo is the document with a relay's statistics (dir-spec, "extra-info
// document format"). The relay's descriptor names it by digest.
type ExtraInfo struct {
	Nickname  string
	RSA       ident.RSAID
	Ed        ident.Ed25519ID
	Published time.Time
	Stats     []byte // the lines between "published" and the signatures

	Digest [20]byte // SHA-1, as in a descriptor's extra-info-digest
	SHA256 [32]byte // of the whole document, likewise
	Text   []byte
}

const extraStart = "extra-info"

// ParseExtraInfos reads a concatenation of extra-info documents, with or
// without C tor's annotations, and calls each for every one.
func ParseExtraInfos(b []byte, now time.Time, each func(*ExtraInfo, error)) {
	for _, one := range splitDocs(b, extraStart) {
		each(ParseExtraInfo(trimAnnotation(one), now))
	}
}

// ParseExtraInfo reads one document and checks its Ed25519 signature. It does not
// check the RSA signature, which needs the relay's key from its descriptor: see
// Belongs.
func ParseExtraInfo(doc []byte, now time.Time) (*ExtraInfo, error) {
	if len(doc) > maxDescriptor {
		return nil, fault.New(fault.Resource, "extra-info document of %d bytes", len(doc))
	}
	e := &ExtraInfo{Text: bytes.Clone(doc), SHA256: sha256.Sum256(doc)}
	p := &descParser{d: &RouterDesc{Text: e.Text}, now: now}
	p.s = NewScanner("extra-info document", e.Text)
	statsFrom := 0
	for it, ok := p.s.Next(); ok; it, ok = p.s.Next() {
		if err := e.item(p, it, &statsFrom); err != nil {
			return nil, p.s.Fail("%w", err)
		}
		p.n++
		p.last = string(it.Keyword)
	}
	if p.s.Err() != nil {
		return nil, p.s.Err()
	}
	if p.last != "router-signature" {
		return nil, fault.New(fault.Directory, "extra-info document: it does not end with router-signature")
	}
	return e, nil
}

func (e *ExtraInfo) item(p *descParser, it *Item, statsFrom *int) (err error) {
	a := it.Args
	switch {
	case (p.n == 0) != it.Is(extraStart):
		return fault.New(fault.Directory, "%s must come first and once", extraStart)
	case (p.n == 1) != it.Is("identity-ed25519"):
		return fault.New(fault.Directory, "identity-ed25519 must come second and once")
	case p.last == "router-signature":
		return fault.New(fault.Directory, "after the signature")
	case (p.last == "router-sig-ed25519") != it.Is("router-signature"):
		return fault.New(fault.Directory, "the two signatures must come last, one after the other")
	}
	switch string(it.Keyword) {
	case extraStart:
		nick, err := a.need("nickname")
		if err != nil {
			return err
		}
		if !validNickname(nick) {
			return fault.New(fault.Directory, "nickname %q", clip(nick))
		}
		e.Nickname = string(nick)
		return a.hex("fingerprint", e.RSA[:])
	case "identity-ed25519":
		p.identity, err = edCert(it, edCertObject)
	case "published":
		if err := p.seen.once(it.Keyword); err != nil {
			return err
		}
		*statsFrom = it.End
		e.Published, err = a.time()
	case "router-sig-ed25519":
		if *statsFrom == 0 {
			return fault.New(fault.Directory, "no published line before the signature")
		}
		e.Stats = e.Text[*statsFrom:it.Start]
		p.edSigEnd = it.Start + len("router-sig-ed25519 ")
		return a.base64("signature", p.edSig[:])
	case "router-signature":
		if _, err := it.Object("SIGNATURE"); err != nil {
			return err
		}
		if !p.identity.HasSigner {
			return fault.New(fault.Directory, "identity-ed25519: the certificate lacks the identity")
		}
		e.Ed = p.identity.Signer
		e.Digest = sha1.Sum(e.Text[:it.LineEnd])
		return verifyEd(p.identity, e.Ed, routerSigPrefix, e.Text[:p.edSigEnd], p.edSig, p)
	}
	return err
}

// Belongs reports whether the descriptor d names this document: d's signatures
// cover the identities and the digest.
func (e *ExtraInfo) Belongs(d *RouterDesc) bool {
	return d.HasExtraInfo && e.RSA == d.RSA && e.Ed == d.Ed && e.Digest == d.ExtraInfo &&
		(d.ExtraInfoSHA256 == [32]byte{} || e.SHA256 == d.ExtraInfoSHA256)
}

// Sign encodes the document, signs it and parses the result. Stats must be whole
// lines.
func (e *ExtraInfo) Sign(rand io.Reader, keys *DescKeys, now time.Time) (*ExtraInfo, error) {
	b := appendLine(nil, extraStart, e.Nickname, RSADigest(&keys.Identity.PublicKey).String())
	b = AppendObject(appendLine(b, "identity-ed25519"), edCertObject, keys.SigningCert)
	b = append(appendTime(append(b, "published "...), e.Published), '\n')
	b = append(b, e.Stats...)
	b, err := keys.sign(rand, b, routerSigPrefix)
	if err != nil {
		return nil, err
	}
	return ParseExtraInfo(b, now)
}

// NewDescKeys returns the keys with a new certificate of the signing key, signed
// by the master identity key.
func NewDescKeys(k DescKeys, master cert.Signer, expires time.Time) *DescKeys {
	c := cert.Ed25519{Type: cert.IdentityVSigning, Expires: expires, KeyType: cert.KeyEd25519, Key: k.Signing.Public(), Signer: k.Ed, HasSigner: true}
	k.SigningCert = c.Encode(master)
	return &k
}
