package flood

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// Types of TLS records (RFC 8446, section 5.1).
const (
	recordHandshake   = 22
	recordApplication = 23
)

// keyUpdate is a KeyUpdate message that asks for one in return (RFC 8446,
// section 4.6.3).
var keyUpdate = []byte{24, 0, 0, 1, 1}

// sealer writes TLS 1.3 records: crypto/tls has no way to send KeyUpdate. It is
// made after the handshake; from then on it makes all records.
type sealer struct {
	hash   func() hash.Hash
	keyLen int
	secret []byte // client_application_traffic_secret_N
	aead   cipher.AEAD
	iv     [12]byte
	seq    uint64
}

// newSealer takes the keys of a connection's client from its key log.
func newSealer(suite uint16, log string) (*sealer, error) {
	s := &sealer{hash: sha256.New, keyLen: 16}
	switch suite {
	case tls.TLS_AES_128_GCM_SHA256:
	case tls.TLS_AES_256_GCM_SHA384:
		s.hash, s.keyLen = sha512.New384, 32
	default:
		return nil, fault.New(fault.Protocol, "TLS: the victim chose cipher suite %#x, and the bench writes AES-GCM only", suite)
	}
	for line := range strings.Lines(log) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "CLIENT_TRAFFIC_SECRET_0" {
			secret, err := hex.DecodeString(f[2])
			if err != nil {
				return nil, fault.New(fault.Local, "TLS key log: %w", err)
			}
			return s, s.use(secret)
		}
	}
	return nil, fault.New(fault.Local, "TLS key log: no traffic secret")
}

// use continues with a traffic secret (section 7.3).
func (s *sealer) use(secret []byte) error {
	key, err := s.expand(secret, "key", s.keyLen)
	if err != nil {
		return err
	}
	iv, err := s.expand(secret, "iv", len(s.iv))
	if err != nil {
		return err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return fault.Wrap(fault.Local, err)
	}
	if s.aead, err = cipher.NewGCM(block); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	copy(s.iv[:], iv)
	s.secret, s.seq = secret, 0
	return nil
}

// expand is HKDF-Expand-Label with an empty context (section 7.1).
func (s *sealer) expand(secret []byte, label string, n int) ([]byte, error) {
	label = "tls13 " + label
	info := append([]byte{byte(n >> 8), byte(n), byte(len(label))}, label...)
	out, err := hkdf.Expand(s.hash, secret, string(append(info, 0)), n)
	return out, fault.Wrap(fault.Local, err)
}

// seal appends a record of at most 16 kB.
func (s *sealer) seal(dst []byte, typ byte, content []byte) []byte {
	n := len(content) + 1 + s.aead.Overhead()
	at := len(dst)
	dst = append(dst, recordApplication, 3, 3, byte(n>>8), byte(n))
	dst = append(append(dst, content...), typ)
	nonce := s.iv
	for i, b := range binary.BigEndian.AppendUint64(nil, s.seq) {
		nonce[4+i] ^= b
	}
	s.seq++
	plain := dst[at+5:]
	return s.aead.Seal(dst[:at+5], nonce[:], plain, dst[at:at+5])
}

// update appends a KeyUpdate and continues with the next keys (section 7.2).
func (s *sealer) update(dst []byte) ([]byte, error) {
	dst = s.seal(dst, recordHandshake, keyUpdate)
	next, err := s.expand(s.secret, "traffic upd", len(s.secret))
	if err != nil {
		return dst, err
	}
	return dst, s.use(next)
}
