package control

import (
	"crypto/rand"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/hex"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// Password is a password's hash, as C tor has it (RFC 4880, section 3.7.1.3, with SHA-1): eight bytes of
// salt, how much is hashed, and the hash.
type Password [saltSize + 1 + sha1.Size]byte

const saltSize = 8

// usualCount is how much C tor hashes: 64 KiB.
const usualCount = 0x60

// hashPrefix begins a hash in a torrc.
const hashPrefix = "16:"

// ParsePassword reads a hash as HashedControlPassword has it.
func ParsePassword(s string) (p Password, err error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(s), hashPrefix)
	b, err := hex.DecodeString(text)
	if !ok || err != nil || len(b) != len(p) {
		return p, fault.New(fault.Config, "this is no hash of a password: tor --hash-password makes one")
	}
	copy(p[:], b)
	return p, nil
}

// HashPassword hashes a password with a new salt.
func HashPassword(password string) Password {
	var p Password
	rand.Read(p[:saltSize]) // it never fails
	p[saltSize] = usualCount
	copy(p[saltSize+1:], p.hash([]byte(password)))
	return p
}

// String returns the hash as HashedControlPassword has it.
func (p Password) String() string { return hashPrefix + strings.ToUpper(hex.EncodeToString(p[:])) }

func (p Password) is(secret []byte) bool {
	return subtle.ConstantTimeCompare(p.hash(secret), p[saltSize+1:]) == 1
}

// hash hashes salt and secret, again and again, up to the count of bytes.
func (p Password) hash(secret []byte) []byte {
	c := int(p[saltSize])
	left := (16 + c&15) << (c>>4 + 6)
	unit := append(append([]byte{}, p[:saltSize]...), secret...)
	left = max(left, len(unit))
	h := sha1.New()
	for left >= len(unit) {
		h.Write(unit)
		left -= len(unit)
	}
	h.Write(unit[:left])
	return h.Sum(nil)
}
