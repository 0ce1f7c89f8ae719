package netdoc

import (
	"crypto/ed25519"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// routerSigPrefix is the prefix of the data that the Ed25519 signature of a
// descriptor or an extra-info document covers.
const routerSigPrefix = "Tor router descriptor signature v1"

// verify checks all signatures and certificates, after the last item was read.
func (p *descParser) verify(it *Item) error {
	err := p.seen.require("router descriptor", "identity-ed25519", "bandwidth", "published", "ntor-onion-key", "ntor-onion-key-crosscert", "signing-key", "proto", "router-sig-ed25519")
	if err != nil {
		return err
	}
	sig, err := it.Object("SIGNATURE")
	if err != nil {
		return err
	}
	p.d.Digest = sha1.Sum(p.d.Text[:it.LineEnd])
	if !p.identity.HasSigner {
		return fault.New(fault.Directory, "identity-ed25519: the certificate lacks the identity")
	}
	if p.seen["master-key-ed25519"] && p.d.Ed != p.identity.Signer {
		return fault.New(fault.Directory, "identity-ed25519: it is not the certificate of master-key-ed25519")
	}
	p.d.Ed, p.d.CertExpires = p.identity.Signer, p.identity.Expires
	for _, c := range append(p.families, p.ntorCross) {
		if c.Expires.Before(p.d.CertExpires) {
			p.d.CertExpires = c.Expires
		}
	}
	if p.judge != nil {
		if err := p.judge(p.d); err != nil {
			return err
		}
	}
	if err := verifyRSA(p.signing, p.d.Digest[:], sig); err != nil {
		return err
	}
	if err := verifyEd(p.identity, p.d.Ed, routerSigPrefix, p.d.Text[:p.edSigEnd], p.edSig, p); err != nil {
		return err
	}
	if len(p.d.Policy) == 0 {
		return fault.New(fault.Directory, "no exit policy")
	}
	p.d.Text = p.d.Text[:it.End:it.End] // no digest covers what may follow
	return p.verifyCross()
}

// verifyEd checks the signing key's certificate, and the signature made with
// that key.
func verifyEd(c *cert.Ed25519, id ident.Ed25519ID, prefix string, signed []byte, sig [64]byte, p *descParser) error {
	if err := c.Verify(cert.IdentityVSigning, id, p.now); err != nil {
		return err
	}
	digest := edDigest(prefix, signed)
	if !ed25519.Verify(c.Key[:], digest[:], sig[:]) {
		return fault.New(fault.Directory, "wrong Ed25519 signature")
	}
	return nil
}

func edDigest(prefix string, signed []byte) [32]byte {
	h := sha256.New()
	h.Write([]byte(prefix))
	h.Write(signed)
	return [32]byte(h.Sum(nil))
}

// verifyCross checks that the relay owns the onion keys, and that the owners of
// its family keys accept it as a member.
func (p *descParser) verifyCross() error {
	signer, err := edOfX25519(p.d.Ntor, p.ntorSign)
	if err != nil {
		return err
	}
	if err := p.ntorCross.Verify(cert.NtorCCIdentity, signer, p.now); err != nil {
		return err
	}
	if ident.Ed25519ID(p.ntorCross.Key) != p.d.Ed {
		return fault.New(fault.Directory, "ntor-onion-key-crosscert: it belongs to another relay")
	}
	if (p.onion == nil) != (p.cross == nil) {
		return fault.New(fault.Directory, "only one of onion-key and onion-key-crosscert is present")
	}
	if p.onion != nil {
		if err := verifyOnionCross(x509.MarshalPKCS1PublicKey(p.onion), p.cross, p.d.RSA, p.d.Ed); err != nil {
			return err
		}
	}
	for _, c := range p.families {
		if !c.HasSigner {
			return fault.New(fault.Directory, "family-cert: it does not include the family's key")
		}
		if err := c.Verify(cert.FamilyVIdentity, c.Signer, p.now); err != nil {
			return fault.New(fault.Directory, "family-cert: %w", err)
		}
		if ident.Ed25519ID(c.Key) != p.d.Ed {
			return fault.New(fault.Directory, "family-cert: it belongs to another relay")
		}
		p.d.FamilyIDs = append(p.d.FamilyIDs, c.Signer)
	}
	return nil
}

// verifyOnionCross checks the TAP key's signature over both identities. More
// data may follow them.
func verifyOnionCross(der, sig []byte, rsaID ident.RSAID, ed ident.Ed25519ID) error {
	k, err := x509.ParsePKCS1PublicKey(der)
	if err != nil {
		return fault.New(fault.Directory, "onion-key: %w", err)
	}
	if err := verifyRSA(k, append(rsaID[:], ed[:]...), sig); err != nil {
		return fault.New(fault.Directory, "onion-key-crosscert: %w", err)
	}
	return nil
}
