package netdoc

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"strconv"
	"time"

	"github.com/chivenet/chive/internal/bin"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/protover"
)

// MaxIntroPoints is how many introduction points a descriptor may have.
const MaxIntroPoints = 20

// hsFleet begins the item that a service's hosts write for each other.
const hsFleet = "chive-fleet"

// hsCGO is the line about counter galois onion, and hsCGOVersion its version
// (docs/spec/cgo-onions.md, section 2).
const hsCGO, hsCGOVersion = "chive-cgo", "1"

// hsHalfClose is the line about half-closed streams (docs/spec/half-close.md), and
// hsHalfCloseVersion its version.
const hsHalfClose, hsHalfCloseVersion = "chive-half-close", "1"

// hsPoWTime is the format of times in pow-params.
const hsPoWTime = "2006-01-02T15:04:05"

// HSInner is the part of a descriptor for clients (rend-spec-v3,
// HS-DESC-SECOND-LAYER).
type HSInner struct {
	Single bool // a single onion service: it makes one hop to rendezvous points
	// FlowControl are the versions of congestion control that the service
	// supports; zero: none. SendmeInc is the number of cells that a SENDME
	// acknowledges.
	FlowControl protover.Set
	SendmeInc   uint8
	// CGO says that the service builds virtual hops of counter galois onion for clients
	// that ask for it (docs/spec/cgo-onions.md). It needs congestion control.
	CGO bool
	PoW *HSPoW // nil: introductions need no proof of work
	// HalfClose says that the service takes HALF_CLOSE from clients, and sends it to those
	// that ask for it.
	HalfClose bool
	// KEM is the service's ML-KEM-768 encapsulation key (docs/spec/pq-onions.md), of
	// which only the length was checked; nil: it has none.
	KEM []byte
	// Fleet is sealed by the service's hosts for each other; nil: none. Other readers
	// ignore it.
	Fleet  []byte
	Points []HSIntroPoint
}

// MaxHSFleet bounds HSInner.Fleet, in bytes.
const MaxHSFleet = 2048

// HSPoW has a service's parameters of proof of work, version 1 (hspow-spec).
type HSPoW struct {
	Seed    [32]byte
	Effort  uint32 // the effort that the service suggests
	Expires time.Time
}

// HSIntroPoint is an introduction point.
type HSIntroPoint struct {
	Specs []linkspec.Spec // in the descriptor's order, unknown ones included
	Onion ident.X25519Key // the relay's ntor onion key
	Auth  ident.Ed25519ID // the service's authentication key at this point
	Enc   ident.X25519Key // the key for which introductions are encrypted
}

// encode writes the inner layer; the key signing signs its certificates.
func (h *HSInner) encode(signing ed25519.PrivateKey, expires time.Time) ([]byte, error) {
	if len(h.Points) > MaxIntroPoints {
		return nil, fault.New(fault.Config, "%s: %d introduction points, more than %d", hsDescriptorID, len(h.Points), MaxIntroPoints)
	}
	b := appendLine(nil, "create2-formats", "2")
	b = appendFlag(b, "single-onion-service", h.Single)
	if !h.FlowControl.IsZero() {
		b = appendLine(b, "flow-control", h.FlowControl.Versions("FlowCtrl"), itoa(uint16(h.SendmeInc)))
	}
	if h.CGO {
		b = appendLine(b, hsCGO, hsCGOVersion)
	}
	if h.HalfClose {
		b = appendLine(b, hsHalfClose, hsHalfCloseVersion)
	}
	if p := h.PoW; p != nil {
		b = appendLine(b, "pow-params", "v1", base64.RawStdEncoding.EncodeToString(p.Seed[:]), strconv.FormatUint(uint64(p.Effort), 10), p.Expires.UTC().Format(hsPoWTime))
	}
	if len(h.Fleet) > MaxHSFleet {
		return nil, fault.New(fault.Config, "%s: %d bytes for the hosts, more than %d", hsDescriptorID, len(h.Fleet), MaxHSFleet)
	}
	if h.Fleet != nil {
		b = AppendObject(appendLine(b, hsFleet, "1"), hsMessage, h.Fleet)
	}
	b, err := h.appendKEM(b)
	if err != nil {
		return nil, err
	}
	for i := range h.Points {
		if b, err = h.Points[i].append(b, signing, expires); err != nil {
			return nil, fault.New(fault.Config, "%s: introduction point %d: %w", hsDescriptorID, i+1, err)
		}
	}
	return b, nil
}

func (p *HSIntroPoint) append(b []byte, signing ed25519.PrivateKey, expires time.Time) ([]byte, error) {
	if len(p.Specs) > linkspec.MaxSpecs {
		return nil, fault.New(fault.Config, "%d link specifiers", len(p.Specs))
	}
	enc := base64.StdEncoding.EncodeToString
	b = appendLine(b, "introduction-point", enc(linkspec.Append(nil, p.Specs)))
	b = appendLine(b, "onion-key", "ntor", enc(p.Onion[:]))
	certify := func(typ cert.Type, key ident.Ed25519ID) []byte {
		c := cert.Ed25519{Type: typ, Expires: expires, KeyType: cert.KeyEd25519, Key: key, Signer: cert.IdentityOf(signing), HasSigner: true}
		return c.Encode(cert.SignerOf(signing))
	}
	b = AppendObject(appendLine(b, "auth-key"), edCertObject, certify(cert.HSIntroVSigning, p.Auth))
	b = appendLine(b, "enc-key", "ntor", enc(p.Enc[:]))
	ed, err := edOfX25519(p.Enc, 0)
	if err != nil {
		return nil, err
	}
	return AppendObject(appendLine(b, "enc-key-cert"), edCertObject, certify(cert.HSIntroCCSigning, ed)), nil
}

// parseHSInner reads the inner layer. As in C tor, it omits an introduction point
// that cannot be used, so that a new kind of point does not make the others
// unusable.
func parseHSInner(b []byte, signing ident.Ed25519ID) (*HSInner, error) {
	const doc = hsDescriptorID + ", second layer"
	if !bytes.HasSuffix(b, []byte("\n")) {
		b = append(b, '\n') // OnionBalance's ends without a newline
	}
	h := new(HSInner)
	s := NewScanner(doc, b)
	var seen seen
	var point *hsPointParser
	for it, ok := s.Next(); ok; it, ok = s.Next() {
		var err error
		switch {
		case it.Is("introduction-point"):
			h.add(point)
			if point = newHSPoint(it, signing); len(h.Points) >= MaxIntroPoints {
				err = fault.New(fault.Directory, "more than %d introduction points", MaxIntroPoints)
			}
		case point != nil:
			point.item(it)
		default:
			err = h.item(it, &seen)
		}
		if err != nil {
			return nil, s.Fail("%w", err)
		}
	}
	if s.Err() != nil {
		return nil, s.Err()
	}
	h.add(point)
	return h, seen.require(doc, "create2-formats")
}

func (h *HSInner) add(p *hsPointParser) {
	if p != nil && p.complete() {
		h.Points = append(h.Points, p.HSIntroPoint)
	}
}

func (h *HSInner) item(it *Item, seen *seen) error {
	a := it.Args
	if (len(*seen) == 0) != it.Is("create2-formats") {
		return fault.New(fault.Directory, "create2-formats must come first and once")
	}
	switch string(it.Keyword) {
	case "create2-formats":
		_ = seen.once(it.Keyword)
		for w, ok := a.Next(); ok; w, ok = a.Next() {
			if string(w) == "2" {
				return nil
			}
		}
		return fault.New(fault.Directory, "ntor (2) is not among them")
	case "single-onion-service":
		h.Single = true
		return seen.once(it.Keyword)
	case "flow-control":
		if err := seen.once(it.Keyword); err != nil {
			return err
		}
		return h.flowControl(&a)
	case hsCGO:
		if w, _ := a.Next(); string(w) != hsCGOVersion {
			return nil // of a later version
		}
		h.CGO = true
		return seen.once(it.Keyword)
	case hsHalfClose:
		if w, _ := a.Next(); string(w) != hsHalfCloseVersion {
			return nil // of a later version
		}
		h.HalfClose = true
		return seen.once(it.Keyword)
	case hsFleet:
		if w, _ := a.Next(); string(w) != "1" {
			return nil // of a later version
		}
		if err := seen.once(it.Keyword); err != nil {
			return err
		}
		b, err := it.Object(hsMessage)
		if err == nil && len(b) <= MaxHSFleet { // clients need it not, so a bad one is none
			h.Fleet = b
		}
	case "pow-params":
		if w, _ := a.Next(); string(w) != "v1" {
			return nil // of another kind
		}
		if err := seen.once(it.Keyword); err != nil {
			return err
		}
		return h.pow(&a)
	case hsKEMKeyword:
		return h.kem(it, seen)
	}
	return nil
}

func (h *HSInner) flowControl(a *Args) error {
	w, err := a.need("versions")
	if err != nil {
		return err
	}
	if h.FlowControl, err = protover.Parse("FlowCtrl=" + string(w)); err != nil {
		return fault.Wrap(fault.Directory, err)
	}
	n, err := a.uint("SENDME increment", 255)
	h.SendmeInc = uint8(n)
	return err
}

func (h *HSInner) pow(a *Args) error {
	p := new(HSPoW)
	if err := a.base64("seed", p.Seed[:]); err != nil {
		return err
	}
	n, err := a.uint("effort", 1<<32-1)
	if err != nil {
		return err
	}
	w, err := a.need("time")
	if err != nil {
		return err
	}
	p.Effort = uint32(n)
	if p.Expires, err = time.Parse(hsPoWTime, string(w)); err != nil {
		return fault.New(fault.Directory, "%q is not a time", clip(w))
	}
	h.PoW = p
	return nil
}

// hsPointParser reads one introduction point.
type hsPointParser struct {
	HSIntroPoint
	signing ident.Ed25519ID
	bad     bool
	have    struct{ onion, auth, enc, encCert bool }
	encEd   ident.Ed25519ID // from the certificate
}

func newHSPoint(it *Item, signing ident.Ed25519ID) *hsPointParser {
	p := &hsPointParser{signing: signing}
	a := it.Args
	w, _ := a.Next()
	b, err := base64.StdEncoding.DecodeString(string(w))
	r := bin.NewReader("link specifiers", b)
	p.Specs = linkspec.Read(&r)
	p.bad = err != nil || r.End() != nil || len(p.Specs) > linkspec.MaxSpecs
	return p
}

func (p *hsPointParser) item(it *Item) {
	a := it.Args
	var err error
	once := func(have *bool) {
		p.bad = p.bad || *have
		*have = true
	}
	switch string(it.Keyword) {
	case "onion-key", "enc-key":
		if w, _ := a.Next(); string(w) != "ntor" {
			return // of a kind that is not known
		}
		if it.Is("onion-key") {
			once(&p.have.onion)
			err = a.base64("key", p.Onion[:])
		} else {
			once(&p.have.enc)
			err = a.base64("key", p.Enc[:])
		}
	case "auth-key":
		once(&p.have.auth)
		p.Auth, err = p.certified(it, cert.HSIntroVSigning)
	case "enc-key-cert":
		once(&p.have.encCert)
		p.encEd, err = p.certified(it, cert.HSIntroCCSigning)
	}
	p.bad = p.bad || err != nil
}

// certified returns the key that a certificate names. The signature over the
// whole descriptor protects the key already, so certified does not check the
// certificate's expiration time.
func (p *hsPointParser) certified(it *Item, typ cert.Type) (ident.Ed25519ID, error) {
	c, err := edCert(it, edCertObject)
	if err != nil {
		return ident.Ed25519ID{}, err
	}
	if !c.HasSigner {
		return ident.Ed25519ID{}, fault.New(fault.Directory, "the certificate lacks its signer")
	}
	return c.Key, c.Verify(typ, p.signing, c.Expires)
}

// complete reports whether the point can be used: all fields are present, the encryption key
// is the certified one, and no key is one with which no handshake works, such as zeros.
func (p *hsPointParser) complete() bool {
	if p.bad || !p.have.onion || !p.have.auth || !p.have.enc || !p.have.encCert {
		return false
	}
	if p.Auth.IsZero() || hscrypto.SmallOrder(p.Onion) || hscrypto.SmallOrder(p.Enc) {
		return false
	}
	ed, err := edOfX25519(p.Enc, p.encEd[31]>>7)
	return err == nil && ed == p.encEd
}
