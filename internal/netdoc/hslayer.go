package netdoc

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/sha3"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"io"
	"math/bits"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// The lengths and constants of both encrypted layers of a descriptor
// (rend-spec-v3, HS-DESC-ENC).
const (
	hsSaltLen   = 16
	hsMACLen    = 32
	hsCookieLen = 16
	hsPadTo     = 10_000 // bytes: the middle layer's plaintext is a multiple

	hsOuterConstant = "hsdir-superencrypted-data"
	hsInnerConstant = "hsdir-encrypted-data"

	// The number of auth-client lines is always a multiple of hsClientGroup, so
	// that it hides how many clients are authorised.
	hsClientGroup = 16
)

// hsLayer has the inputs for the keys of a descriptor's layers.
type hsLayer struct {
	blinded       ident.Ed25519ID
	subcredential [32]byte
	revision      uint64
}

// keys returns the stream cipher and the key of the MAC of a layer. cookie is
// empty except for the inner layer of a descriptor with client authorization.
func (l *hsLayer) keys(constant string, cookie, salt []byte) (cipher.Stream, []byte, error) {
	h := sha3.NewSHAKE256()
	h.Write(l.blinded[:])
	h.Write(cookie)
	h.Write(l.subcredential[:])
	h.Write(binary.BigEndian.AppendUint64(nil, l.revision))
	h.Write(salt)
	h.Write([]byte(constant))
	var k [32 + aes.BlockSize + hsMACLen]byte
	_, _ = h.Read(k[:]) // SHAKE never fails
	block, err := aes.NewCipher(k[:32])
	if err != nil {
		return nil, nil, fault.Wrap(fault.Local, err)
	}
	return cipher.NewCTR(block, k[32:32+aes.BlockSize]), k[32+aes.BlockSize:], nil
}

// hsMAC covers the salt and the ciphertext of a layer.
func hsMAC(key, salt, ciphertext []byte) []byte {
	h := sha3.New256()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(key))))
	h.Write(key)
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(salt))))
	h.Write(salt)
	h.Write(ciphertext)
	return h.Sum(nil)
}

// seal encrypts a layer.
func (l *hsLayer) seal(rand io.Reader, constant string, cookie, plain []byte) ([]byte, error) {
	out := make([]byte, hsSaltLen, hsSaltLen+len(plain)+hsMACLen)
	if _, err := io.ReadFull(rand, out); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	stream, macKey, err := l.keys(constant, cookie, out)
	if err != nil {
		return nil, err
	}
	out = append(out, plain...)
	stream.XORKeyStream(out[hsSaltLen:], plain)
	return append(out, hsMAC(macKey, out[:hsSaltLen], out[hsSaltLen:])...), nil
}

// errHSKeys says that a layer does not open with the given keys.
var errHSKeys = fault.New(fault.Refused, "%s: it cannot be decrypted", hsDescriptorID)

// open decrypts a layer.
func (l *hsLayer) open(constant string, cookie, sealed []byte) ([]byte, error) {
	salt, body := sealed[:hsSaltLen], sealed[hsSaltLen:]
	body, mac := body[:len(body)-hsMACLen], body[len(body)-hsMACLen:]
	stream, macKey, err := l.keys(constant, cookie, salt)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare(hsMAC(macKey, salt, body), mac) != 1 {
		return nil, errHSKeys
	}
	plain := make([]byte, len(body))
	stream.XORKeyStream(plain, body)
	return plain, nil
}

// hsPad appends zeros up to the next multiple of hsPadTo.
func hsPad(b []byte) []byte {
	if n := len(b) % hsPadTo; n != 0 {
		b = append(b, make([]byte, hsPadTo-n)...)
	}
	return b
}

// encodeMiddle encrypts the inner layer and writes the middle layer around it
// (HS-DESC-FIRST-LAYER). As in C tor, the middle layer ends without a newline.
func (l *hsLayer) encodeMiddle(rand io.Reader, inner []byte, clients []ident.X25519Key) ([]byte, error) {
	ephemeral, err := hsNewKey(rand)
	if err != nil {
		return nil, err
	}
	lines := make([][8 + 16 + hsCookieLen]byte, max(1, (len(clients)+hsClientGroup-1)/hsClientGroup)*hsClientGroup)
	for i := range lines { // lines without a client stay random
		if _, err := io.ReadFull(rand, lines[i][:]); err != nil {
			return nil, fault.Wrap(fault.Local, err)
		}
	}
	var cookie []byte
	if len(clients) > 0 {
		cookie = make([]byte, hsCookieLen)
		if _, err := io.ReadFull(rand, cookie); err != nil {
			return nil, fault.Wrap(fault.Local, err)
		}
	}
	for i, c := range clients {
		id, block, err := l.cookieKeys(ephemeral, c)
		if err != nil {
			return nil, fault.New(fault.Config, "%s: authorized client %d: %w", hsDescriptorID, i+1, err)
		}
		copy(lines[i][:8], id[:])
		cipher.NewCTR(block, lines[i][8:24]).XORKeyStream(lines[i][24:], cookie)
	}
	if err := hsShuffle(rand, lines); err != nil {
		return nil, err
	}
	b := appendLine(nil, "desc-auth-type", "x25519")
	b = appendLine(b, "desc-auth-ephemeral-key", base64.StdEncoding.EncodeToString(ephemeral.PublicKey().Bytes()))
	enc := base64.RawStdEncoding.EncodeToString
	for _, c := range lines {
		b = appendLine(b, "auth-client", enc(c[:8]), enc(c[8:24]), enc(c[24:]))
	}
	sealed, err := l.seal(rand, hsInnerConstant, cookie, inner)
	if err != nil {
		return nil, err
	}
	b = AppendObject(appendLine(b, "encrypted"), hsMessage, sealed)
	return b[:len(b)-1], nil
}

// cookieKeys returns by what an authorized client finds its line, and what the
// cookie in it is encrypted with. One of the two keys is a secret one.
func (l *hsLayer) cookieKeys(secret *ecdh.PrivateKey, public ident.X25519Key) (id [8]byte, block cipher.Block, err error) {
	p, err := ecdh.X25519().NewPublicKey(public[:])
	if err != nil {
		return id, nil, fault.Wrap(fault.Directory, err)
	}
	seed, err := secret.ECDH(p)
	if err != nil {
		return id, nil, fault.New(fault.Directory, "the X25519 key is of small order")
	}
	h := sha3.NewSHAKE256()
	h.Write(l.subcredential[:])
	h.Write(seed)
	var k [8 + 32]byte
	_, _ = h.Read(k[:]) // SHAKE never fails
	block, err = aes.NewCipher(k[8:])
	return [8]byte(k[:]), block, fault.Wrap(fault.Local, err)
}

func hsNewKey(rand io.Reader) (*ecdh.PrivateKey, error) {
	var b [32]byte
	if _, err := io.ReadFull(rand, b[:]); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	k, err := ecdh.X25519().NewPrivateKey(b[:])
	return k, fault.Wrap(fault.Local, err)
}

// hsShuffle puts a list into a random order.
func hsShuffle[T any](rand io.Reader, list []T) error {
	var b [8]byte
	for i := len(list) - 1; i > 0; i-- {
		if _, err := io.ReadFull(rand, b[:]); err != nil {
			return fault.Wrap(fault.Local, err)
		}
		// The bias of 2^-58 is too small to matter.
		j, _ := bits.Mul64(binary.BigEndian.Uint64(b[:]), uint64(i+1))
		list[i], list[j] = list[j], list[i]
	}
	return nil
}
