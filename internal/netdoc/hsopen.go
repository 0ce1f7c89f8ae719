package netdoc

import (
	"bytes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/subtle"
	"errors"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// Why a descriptor's introduction points cannot be read.
var (
	// ErrHSNeedsAuth: the service requires client authorization, and the caller
	// gave no key.
	ErrHSNeedsAuth = errors.New("the onion service is for authorized clients: a key is missing")
	// ErrHSBadAuth: the service has not authorized the given key.
	ErrHSBadAuth = errors.New("the onion service does not know this client's key")
)

// Open decrypts the descriptor (rend-spec-v3, HS-DESC-ENC). client is the key of
// an authorized client, or nil. The caller must already have compared Blinded
// with the key that it computed.
func (d *HSDescriptor) Open(subcredential [32]byte, client *ecdh.PrivateKey) (*HSInner, error) {
	l := hsLayer{blinded: d.Blinded, subcredential: subcredential, revision: d.Revision}
	plain, err := l.open(hsOuterConstant, nil, d.superencrypted)
	if err != nil {
		return nil, err
	}
	m, err := parseHSMiddle(plain)
	if err != nil {
		return nil, err
	}
	inner, err := l.open(hsInnerConstant, nil, m.encrypted)
	if err == nil { // like C tor, ignore the key if none is needed
		return parseHSInner(inner, d.Signing)
	}
	if client == nil {
		return nil, fault.Wrap(fault.Refused, ErrHSNeedsAuth)
	}
	cookie, err := l.cookie(m, client)
	if err != nil {
		return nil, err
	}
	if inner, err = l.open(hsInnerConstant, cookie, m.encrypted); err != nil {
		return nil, fault.Wrap(fault.Refused, ErrHSBadAuth)
	}
	return parseHSInner(inner, d.Signing)
}

// cookie finds the client's line and decrypts it. One agreement of keys serves all
// lines: a stranger decides how many there are.
func (l *hsLayer) cookie(m *hsMiddle, client *ecdh.PrivateKey) ([]byte, error) {
	id, block, err := l.cookieKeys(client, m.ephemeral)
	if err != nil {
		return nil, err
	}
	for i := range m.clients {
		if c := &m.clients[i]; subtle.ConstantTimeCompare(id[:], c.id[:]) == 1 {
			cookie := make([]byte, hsCookieLen)
			cipher.NewCTR(block, c.iv[:]).XORKeyStream(cookie, c.cookie[:])
			return cookie, nil
		}
	}
	return nil, fault.Wrap(fault.Refused, ErrHSBadAuth)
}

// hsMiddle is the plaintext of the first layer.
type hsMiddle struct {
	ephemeral ident.X25519Key
	clients   []hsClientLine
	encrypted []byte
}

type hsClientLine struct {
	id     [8]byte
	iv     [16]byte
	cookie [hsCookieLen]byte
}

func parseHSMiddle(b []byte) (*hsMiddle, error) {
	b = append(bytes.TrimRight(b, "\x00\n"), '\n') // C tor's ends without a newline
	m := new(hsMiddle)
	s := NewScanner(hsDescriptorID+", first layer", b)
	var seen seen
	for it, ok := s.Next(); ok; it, ok = s.Next() {
		if len(seen) == 0 && !it.Is("desc-auth-type") {
			return nil, s.Fail("desc-auth-type must come first")
		}
		if err := m.item(it, &seen); err != nil {
			return nil, s.Fail("%w", err)
		}
	}
	if s.Err() != nil {
		return nil, s.Err()
	}
	return m, seen.require(hsDescriptorID+", first layer", "desc-auth-type", "desc-auth-ephemeral-key", "auth-client", "encrypted")
}

func (m *hsMiddle) item(it *Item, seen *seen) (err error) {
	a := it.Args
	switch string(it.Keyword) {
	case "desc-auth-type", "desc-auth-ephemeral-key", "encrypted":
		if err := seen.once(it.Keyword); err != nil {
			return err
		}
	}
	switch string(it.Keyword) {
	case "desc-auth-type":
		if w, _ := a.Next(); string(w) != "x25519" {
			return fault.New(fault.Directory, "type %q, not x25519", clip(w))
		}
	case "desc-auth-ephemeral-key":
		return a.base64("key", m.ephemeral[:])
	case "auth-client":
		if !(*seen)["auth-client"] {
			_ = seen.once(it.Keyword)
		}
		var c hsClientLine
		if err := a.base64("client's name", c.id[:]); err != nil {
			return err
		}
		if err := a.base64("IV", c.iv[:]); err != nil {
			return err
		}
		if err := a.base64("cookie", c.cookie[:]); err != nil {
			return err
		}
		m.clients = append(m.clients, c)
	case "encrypted":
		m.encrypted, err = hsLayerObject(it)
	}
	return err
}
