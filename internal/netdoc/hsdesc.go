package netdoc

import (
	"crypto/ed25519"
	"encoding/base64"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// Bounds of an onion service's descriptor (rend-spec-v3, DESC-OUTER).
const (
	// MaxHSDescriptor is the length of the longest descriptor that directories
	// accept unless the consensus sets another limit (HSV3MaxDescriptorSize), in
	// bytes.
	MaxHSDescriptor = 50_000
	// HSLifetime is how long a directory keeps a descriptor.
	HSLifetime = 3 * time.Hour

	hsMaxLifetime  = 12 * time.Hour
	hsMinLayer     = hsSaltLen + hsMACLen + 1
	hsDescStart    = "hs-descriptor"
	hsMessage      = "MESSAGE"
	hsSigPrefix    = "Tor onion service descriptor sig v3"
	hsSigningLife  = 54 * time.Hour // of the certificates, as C tor's
	hsDescriptorID = "onion service descriptor"
)

// HSDescriptor is the public part of an onion service's descriptor, which
// directories can read too (rend-spec-v3, DESC-OUTER). Open decrypts the rest.
type HSDescriptor struct {
	// Blinded is the service's key of one time period, from the certificate. A
	// client must compare it with the key that it has computed itself: anybody
	// can make a descriptor with their own key.
	Blinded  ident.Ed25519ID
	Signing  ident.Ed25519ID // signs this descriptor and its certificates
	Expires  time.Time       // of the certificate of Signing
	Lifetime time.Duration
	Revision uint64
	Text     []byte // the whole document

	superencrypted []byte
}

// ParseHSDescriptor reads a descriptor and checks its certificate and signature.
// The result refers to doc.
func ParseHSDescriptor(doc []byte, now time.Time) (*HSDescriptor, error) {
	if len(doc) > maxDescriptor {
		return nil, fault.New(fault.Resource, "%s: %d bytes", hsDescriptorID, len(doc))
	}
	d := &HSDescriptor{Text: doc}
	s := NewScanner(hsDescriptorID, doc)
	var seen seen
	var last string
	for it, ok := s.Next(); ok; it, ok = s.Next() {
		if (last == "") != it.Is(hsDescStart) || last == "signature" {
			return nil, s.Fail("%s must come first and once, signature last", hsDescStart)
		}
		if err := d.item(it, &seen, now); err != nil {
			return nil, s.Fail("%w", err)
		}
		last = string(it.Keyword)
	}
	if s.Err() != nil {
		return nil, s.Err()
	}
	if err := seen.require(hsDescriptorID, "descriptor-lifetime", "descriptor-signing-key-cert", "revision-counter", "superencrypted", "signature"); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *HSDescriptor) item(it *Item, seen *seen, now time.Time) (err error) {
	a := it.Args
	switch string(it.Keyword) {
	case hsDescStart, "descriptor-lifetime", "descriptor-signing-key-cert", "revision-counter", "superencrypted", "signature":
		if err := seen.once(it.Keyword); err != nil {
			return err
		}
	}
	switch string(it.Keyword) {
	case hsDescStart:
		if v, _ := a.Next(); string(v) != "3" {
			return fault.New(fault.Directory, "version %q, not 3", clip(v))
		}
	case "descriptor-lifetime":
		n, err := a.uint("minutes", uint64(hsMaxLifetime/time.Minute))
		d.Lifetime = time.Duration(n) * time.Minute
		return err
	case "descriptor-signing-key-cert":
		c, err := edCert(it, edCertObject)
		if err != nil {
			return err
		}
		if !c.HasSigner {
			return fault.New(fault.Directory, "the certificate lacks the blinded key")
		}
		d.Signing, d.Blinded, d.Expires = c.Key, c.Signer, c.Expires
		return c.Verify(cert.BlindedVSigning, c.Signer, now)
	case "revision-counter":
		w, err := a.need("number")
		if err != nil {
			return err
		}
		if d.Revision, err = strconv.ParseUint(string(w), 10, 64); err != nil {
			return fault.New(fault.Directory, "%q is not a 64-bit number", clip(w))
		}
	case "superencrypted":
		d.superencrypted, err = hsLayerObject(it)
	case "signature":
		if d.Signing.IsZero() {
			return fault.New(fault.Directory, "the signing key's certificate must come before")
		}
		var sig [ed25519.SignatureSize]byte
		if err := a.base64("signature", sig[:]); err != nil {
			return err
		}
		if !ed25519.Verify(d.Signing[:], append([]byte(hsSigPrefix), d.Text[:it.Start]...), sig[:]) {
			return fault.New(fault.Directory, "the signature is wrong")
		}
	}
	return err
}

// hsLayerObject returns an encrypted layer, and refuses one that is too short.
func hsLayerObject(it *Item) ([]byte, error) {
	b, err := it.Object(hsMessage)
	if err == nil && len(b) < hsMinLayer {
		err = fault.New(fault.Directory, "%d bytes are too few for an encrypted layer", len(b))
	}
	return b, err
}

// HSKeys are the keys to make a descriptor.
type HSKeys struct {
	// Blinded is the service's key of the time period, and Subcredential the
	// secret of the period (hscrypto).
	Blinded       *cert.ExpandedKey
	Subcredential [32]byte
	// Clients are the public keys of the clients that may read the introduction
	// points; none: every client that knows the address.
	Clients []ident.X25519Key
}

// EncodeHSDescriptor makes a descriptor of inner, with a new signing key. It
// reads random salts and keys from rand.
func EncodeHSDescriptor(rand io.Reader, keys *HSKeys, revision uint64, inner *HSInner, now time.Time) (*HSDescriptor, error) {
	_, signing, err := ed25519.GenerateKey(rand)
	if err != nil {
		return nil, fault.New(fault.Local, "%s: make a signing key: %w", hsDescriptorID, err)
	}
	expires := now.Add(hsSigningLife)
	points, err := inner.encode(signing, expires)
	if err != nil {
		return nil, err
	}
	l := hsLayer{blinded: keys.Blinded.Public(), subcredential: keys.Subcredential, revision: revision}
	middle, err := l.encodeMiddle(rand, points, keys.Clients)
	if err != nil {
		return nil, err
	}
	super, err := l.seal(rand, hsOuterConstant, nil, hsPad(middle))
	if err != nil {
		return nil, err
	}
	c := cert.Ed25519{Type: cert.BlindedVSigning, Expires: expires, KeyType: cert.KeyEd25519, Key: cert.IdentityOf(signing), Signer: l.blinded, HasSigner: true}
	b := appendLine(nil, hsDescStart, "3")
	b = appendLine(b, "descriptor-lifetime", itoa(int64(HSLifetime/time.Minute)))
	b = AppendObject(appendLine(b, "descriptor-signing-key-cert"), edCertObject, c.Encode(keys.Blinded.Sign))
	b = appendLine(b, "revision-counter", strconv.FormatUint(revision, 10))
	b = AppendObject(appendLine(b, "superencrypted"), hsMessage, super)
	sig := ed25519.Sign(signing, append([]byte(hsSigPrefix), b...))
	b = appendLine(b, "signature", base64.RawStdEncoding.EncodeToString(sig))
	return ParseHSDescriptor(slices.Clip(b), now)
}
