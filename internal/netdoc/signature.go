package netdoc

import (
	"crypto/rsa"
	"io"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// Signature is one authority's signature of a consensus or a vote.
type Signature struct {
	Algorithm string // "sha1" or "sha256"
	KeyPair
	Sig []byte
}

// KeyPair names an authority's key certificate: by its identity and its
// signing key.
type KeyPair struct{ Identity, Signing ident.RSAID }

const maxSignatures = 128

// parseSignature reads a "directory-signature" item; known is false for an
// unknown algorithm; the caller must ignore such a signature.
func parseSignature(it *Item) (sig Signature, known bool, err error) {
	a := it.Args
	w, err := a.need("identity")
	if err != nil {
		return sig, false, err
	}
	sig.Algorithm = "sha1"
	if len(w) != 2*len(sig.Identity) {
		sig.Algorithm = string(clip(w))
		if w, err = a.need("identity"); err != nil {
			return sig, false, err
		}
	}
	if err := decodeHex("identity", sig.Identity[:], w); err != nil {
		return sig, false, err
	}
	if err := a.hex("signing key digest", sig.Signing[:]); err != nil {
		return sig, false, err
	}
	sig.Sig, err = it.Object("SIGNATURE")
	return sig, sig.Algorithm == "sha1" || sig.Algorithm == "sha256", err
}

func (sig *Signature) append(dst []byte) []byte {
	words := []string{sig.Algorithm, sig.Identity.String(), sig.Signing.String()}
	if sig.Algorithm == "sha1" {
		words = words[1:]
	}
	return AppendObject(appendLine(dst, "directory-signature", words...), "SIGNATURE", sig.Sig)
}

// Verdict is the result of checking a consensus's signatures.
type Verdict struct {
	Needed  int           // how many authorities must have signed: a majority of those trusted
	Valid   []ident.RSAID // authorities with a valid signature
	Missing []KeyPair     // certificates that are needed to check signatures of trusted authorities: there is none, or it has expired
	Bad     []KeyPair     // signatures that are wrong
}

// OK reports whether enough authorities signed.
func (v *Verdict) OK() bool { return len(v.Valid) >= v.Needed }

// Err returns nil if OK, or else an error with the numbers of signatures.
func (v *Verdict) Err() error {
	if v.OK() {
		return nil
	}
	return fault.New(fault.Directory, "consensus: %d valid signatures of trusted authorities, %d needed (%d certificates missing, %d signatures bad)", len(v.Valid), v.Needed, len(v.Missing), len(v.Bad))
}

// Verify counts the valid signatures of the trusted authorities, at most one of
// each. cert returns the certificate of a key pair, or nil.
func (c *Consensus) Verify(trusted []ident.RSAID, cert func(KeyPair) *AuthCert, now time.Time) Verdict {
	v := Verdict{Needed: len(trusted)/2 + 1}
	for _, id := range trusted {
		c.verifyOne(id, cert, now, &v)
	}
	return v
}

func (c *Consensus) verifyOne(id ident.RSAID, cert func(KeyPair) *AuthCert, now time.Time, v *Verdict) {
	var missing, bad []KeyPair
	for i := range c.Signatures {
		sig := &c.Signatures[i]
		if sig.Identity != id {
			continue
		}
		crt := cert(sig.KeyPair)
		if crt == nil || crt.CheckTime(now) != nil { // an authority may have prolonged it
			missing = append(missing, sig.KeyPair)
		} else if c.CheckSignature(sig, crt) != nil {
			bad = append(bad, sig.KeyPair)
		} else {
			v.Valid = append(v.Valid, id)
			return
		}
	}
	v.Missing, v.Bad = append(v.Missing, missing...), append(v.Bad, bad...)
}

// CheckSignature checks one signature of the consensus with the certificate's
// signing key.
func (c *Consensus) CheckSignature(sig *Signature, crt *AuthCert) error {
	if sig.KeyPair != crt.KeyPair() {
		return fault.New(fault.Directory, "the signature was not made with the certificate's key")
	}
	switch sig.Algorithm {
	case "sha1":
		return verifyRSA(crt.SigningKey, c.SHA1[:], sig.Sig)
	case "sha256":
		return verifyRSA(crt.SigningKey, c.SHA256[:], sig.Sig)
	}
	return fault.New(fault.Directory, "a signature of a digest of kind %.20q", sig.Algorithm)
}

// AppendUnsigned writes the consensus without its signatures, and sets the
// digests.
func (c *Consensus) AppendUnsigned(dst []byte) []byte {
	start := len(dst)
	dst = c.Preamble.append(dst)
	for i := range c.Routers {
		dst = c.Routers[i].append(dst, c.Flavor, false)
	}
	dst = append(dst, "directory-footer\n"...)
	if c.BandwidthWeights != nil {
		dst = appendLine(dst, "bandwidth-weights", c.BandwidthWeights.String())
	}
	c.digest(append(dst, "directory-signature "...)[start:])
	return dst
}

// Append writes the consensus with its signatures.
func (c *Consensus) Append(dst []byte) []byte {
	dst = c.AppendUnsigned(dst)
	for i := range c.Signatures {
		dst = c.Signatures[i].append(dst)
	}
	return dst
}

// Sign adds an authority's signature over the digests that AppendUnsigned or
// ParseConsensus set: SHA-1 for the ns flavor, SHA-256 for the other.
func (c *Consensus) Sign(rand io.Reader, identity ident.RSAID, key *rsa.PrivateKey) error {
	sig := Signature{Algorithm: "sha1", KeyPair: KeyPair{identity, RSADigest(&key.PublicKey)}}
	digest := c.SHA1[:]
	if c.Flavor == FlavorMicrodesc {
		sig.Algorithm, digest = "sha256", c.SHA256[:]
	}
	var err error
	if sig.Sig, err = signRSA(rand, key, digest); err != nil {
		return err
	}
	c.Signatures = append(c.Signatures, sig)
	return nil
}

func (c *Preamble) append(dst []byte) []byte {
	version := []string{"3"}
	if c.Flavor != FlavorNS {
		version = append(version, c.Flavor.String())
	}
	dst = appendLine(dst, "network-status-version", version...)
	dst = appendLine(dst, "vote-status", "consensus")
	dst = appendLine(dst, "consensus-method", itoa(c.Method))
	dst = c.Lifetime.append(dst)
	dst = appendLine(dst, "voting-delay", itoa(int64(c.VoteDelay/time.Second)), itoa(int64(c.DistDelay/time.Second)))
	dst = appendLine(dst, "client-versions", c.ClientVersions)
	dst = appendLine(dst, "server-versions", c.ServerVersions)
	for _, p := range c.Packages {
		dst = appendText(dst, "package", p)
	}
	dst = appendLine(dst, "known-flags", strings.Join(c.KnownFlags, " "))
	dst = appendLine(dst, "recommended-client-protocols", c.RecommendedClient.String())
	dst = appendLine(dst, "recommended-relay-protocols", c.RecommendedRelay.String())
	dst = appendLine(dst, "required-client-protocols", c.RequiredClient.String())
	dst = appendLine(dst, "required-relay-protocols", c.RequiredRelay.String())
	if len(c.Params) > 0 {
		dst = appendLine(dst, "params", c.Params.String())
	}
	dst = appendSharedRandom(dst, "shared-rand-previous-value", c.SharedRandPrevious)
	dst = appendSharedRandom(dst, "shared-rand-current-value", c.SharedRandCurrent)
	for i := range c.Sources {
		dst = c.Sources[i].append(dst)
	}
	return dst
}
