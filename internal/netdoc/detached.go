package netdoc

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// DetachedSignatures holds the signatures of the consensuses of one voting
// period, without the consensuses. Authorities send them to each other (dir-spec,
// "exchanging detached signatures").
type DetachedSignatures struct {
	SHA1 [20]byte // of the consensus of flavor ns
	Lifetime
	Flavors    []FlavorDigest // of the other flavors
	Signatures []FlavorSignature
}

// FlavorDigest is the SHA-256 digest of the consensus of a flavor. No other
// algorithm is in use.
type FlavorDigest struct {
	Flavor string
	SHA256 [32]byte
}

// FlavorSignature is a signature of the consensus of a flavor.
type FlavorSignature struct {
	Flavor string // "ns" for directory-signature items
	Signature
}

const detachedStart = "consensus-digest"

// ParseDetachedSignatures reads a document of detached signatures. It does not
// verify them: Attach adds them to the consensus, which can.
func ParseDetachedSignatures(doc []byte) (*DetachedSignatures, error) {
	d := new(DetachedSignatures)
	var seen seen
	s := NewScanner("detached signatures", doc)
	for it, ok := s.Next(); ok; it, ok = s.Next() {
		if (it.Start == 0) != it.Is(detachedStart) {
			return nil, s.Fail("%s must come first and once", detachedStart)
		}
		if err := d.item(it, &seen); err != nil {
			return nil, s.Fail("%w", err)
		}
	}
	if s.Err() != nil {
		return nil, s.Err()
	}
	if err := seen.require("detached signatures", detachedStart, "valid-after", "fresh-until", "valid-until"); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *DetachedSignatures) item(it *Item, seen *seen) (err error) {
	a := it.Args
	switch string(it.Keyword) {
	case detachedStart, "valid-after", "fresh-until", "valid-until":
		if err := seen.once(it.Keyword); err != nil {
			return err
		}
	case "additional-digest", "additional-signature", "directory-signature":
		if len(d.Flavors)+len(d.Signatures) >= maxSignatures {
			return fault.New(fault.Resource, "more than %d digests and signatures", maxSignatures)
		}
	}
	switch string(it.Keyword) {
	case detachedStart:
		return a.hex("digest", d.SHA1[:])
	case "valid-after":
		d.ValidAfter, err = a.time()
	case "fresh-until":
		d.FreshUntil, err = a.time()
	case "valid-until":
		d.ValidUntil, err = a.time()
	case "additional-digest":
		return d.addDigest(a)
	case "additional-signature":
		flavor, err := a.need("flavor")
		if err != nil {
			return err
		}
		it.Args = a
		return d.addSignature(string(flavor), it)
	case "directory-signature":
		return d.addSignature("ns", it)
	}
	return err
}

func (d *DetachedSignatures) addDigest(a Args) error {
	flavor, err := a.need("flavor")
	if err != nil {
		return err
	}
	f := FlavorDigest{Flavor: string(flavor)}
	if alg, _ := a.Next(); string(alg) != "sha256" {
		return nil // an algorithm that is not defined yet
	}
	if err := a.hex("digest", f.SHA256[:]); err != nil {
		return err
	}
	d.Flavors = append(d.Flavors, f)
	return nil
}

func (d *DetachedSignatures) addSignature(flavor string, it *Item) error {
	sig, known, err := parseSignature(it)
	if err == nil && known {
		d.Signatures = append(d.Signatures, FlavorSignature{flavor, sig})
	}
	return err
}

// Append writes the document: digests first, then each flavor's signatures,
// those of the ns flavor last.
func (d *DetachedSignatures) Append(dst []byte) []byte {
	dst = appendLine(dst, detachedStart, strings.ToUpper(hex.EncodeToString(d.SHA1[:])))
	dst = d.Lifetime.append(dst)
	for _, f := range d.Flavors {
		dst = appendLine(dst, "additional-digest", f.Flavor, "sha256", strings.ToUpper(hex.EncodeToString(f.SHA256[:])))
	}
	for _, s := range d.Signatures {
		if s.Flavor != "ns" {
			dst = appendLine(dst, "additional-signature", s.Flavor, s.Algorithm, s.Identity.String(), s.Signing.String())
			dst = AppendObject(dst, "SIGNATURE", s.Sig)
		}
	}
	for _, s := range d.Signatures {
		if s.Flavor == "ns" {
			dst = s.append(dst)
		}
	}
	return dst
}

// Detach returns the signatures of a consensus and of the consensuses of other
// flavors from the same vote.
func Detach(ns *Consensus, others ...*Consensus) *DetachedSignatures {
	d := &DetachedSignatures{SHA1: ns.SHA1, Lifetime: ns.Lifetime}
	for _, c := range append([]*Consensus{ns}, others...) {
		if c.Flavor != FlavorNS {
			d.Flavors = append(d.Flavors, FlavorDigest{c.Flavor.String(), c.SHA256})
		}
		for _, s := range c.Signatures {
			d.Signatures = append(d.Signatures, FlavorSignature{c.Flavor.String(), s})
		}
	}
	return d
}

// Same returns an error if the signatures are of another consensus.
func (d *DetachedSignatures) Same(c *Consensus) error {
	same := d.ValidAfter.Equal(c.ValidAfter) && d.FreshUntil.Equal(c.FreshUntil) && d.ValidUntil.Equal(c.ValidUntil)
	if c.Flavor == FlavorNS {
		same = same && d.SHA1 == c.SHA1
	} else {
		same = same && slices.Contains(d.Flavors, FlavorDigest{c.Flavor.String(), c.SHA256})
	}
	if !same {
		return fault.New(fault.Directory, "detached signatures: they are of another %v consensus", c.Flavor)
	}
	return nil
}

// Check checks one of the signatures with the certificate's key and the digest in
// the document. It does not check that a consensus with this digest exists.
func (d *DetachedSignatures) Check(s FlavorSignature, crt *AuthCert) error {
	if s.KeyPair != crt.KeyPair() {
		return fault.New(fault.Directory, "the signature was not made with the certificate's key")
	}
	if s.Flavor == "ns" && s.Algorithm == "sha1" {
		return verifyRSA(crt.SigningKey, d.SHA1[:], s.Sig)
	}
	i := slices.IndexFunc(d.Flavors, func(f FlavorDigest) bool { return f.Flavor == s.Flavor })
	if i < 0 || s.Algorithm != "sha256" {
		return fault.New(fault.Directory, "detached signatures: there is no %s digest of a %.20s consensus", s.Algorithm, s.Flavor)
	}
	return verifyRSA(crt.SigningKey, d.Flavors[i].SHA256[:], s.Sig)
}

// Attach adds to the consensus the signatures of its flavor that it does not have
// yet, and returns how many it added. It returns an error if the signatures are
// of another consensus. The caller must still verify each signature.
func (d *DetachedSignatures) Attach(c *Consensus) (int, error) {
	if err := d.Same(c); err != nil {
		return 0, err
	}
	n := 0
	for _, s := range d.Signatures {
		has := slices.ContainsFunc(c.Signatures, func(o Signature) bool { return o.KeyPair == s.KeyPair && o.Algorithm == s.Algorithm })
		if s.Flavor == c.Flavor.String() && !has {
			c.Signatures = append(c.Signatures, s.Signature)
			n++
		}
	}
	slices.SortStableFunc(c.Signatures, func(a, b Signature) int { return bytes.Compare(a.Identity[:], b.Identity[:]) })
	return n, nil
}
