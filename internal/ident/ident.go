// Package ident has the types of relays' names and keys, and types that keep
// these and addresses out of logs.
package ident

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"log/slog"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// RSAID is the SHA-1 digest of a relay's RSA identity key (tor-spec, "relay
// keys and identities"): 20 bytes.
type RSAID [20]byte

// Ed25519ID is a relay's Ed25519 master identity key: 32 bytes.
type Ed25519ID [32]byte

// X25519Key is a Curve25519 public key, such as an ntor onion key: 32 bytes.
type X25519Key [32]byte

// ParseRSAID reads 40 hexadecimal digits; a leading "$" and blanks between groups
// of digits, as in C tor's fingerprint lines, are allowed.
func ParseRSAID(s string) (RSAID, error) {
	var id RSAID
	h := strings.ReplaceAll(strings.TrimPrefix(s, "$"), " ", "")
	if len(h) != 40 {
		return id, fault.New(fault.Config, "RSA fingerprint: %d characters, not 40 hexadecimal digits", len(h))
	}
	if _, err := hex.Decode(id[:], []byte(h)); err != nil {
		return RSAID{}, fault.New(fault.Config, "RSA fingerprint: %w", err)
	}
	return id, nil
}

// ParseEd25519ID reads an Ed25519 identity in base64, with or without padding.
func ParseEd25519ID(s string) (Ed25519ID, error) {
	var id Ed25519ID
	err := decode32(id[:], s)
	if err != nil {
		return Ed25519ID{}, fault.New(fault.Config, "Ed25519 identity: %w", err)
	}
	return id, nil
}

func decode32(dst []byte, s string) error {
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
	if err != nil {
		return err
	}
	if len(b) != 32 {
		return fault.New(fault.Config, "%d bytes, not 32", len(b))
	}
	copy(dst, b)
	return nil
}

// String returns the fingerprint in upper-case hexadecimal, without "$".
func (id RSAID) String() string { return strings.ToUpper(hex.EncodeToString(id[:])) }

// IsZero reports whether the identity is absent.
func (id RSAID) IsZero() bool { return id == RSAID{} }

// Equal compares in constant time.
func (id RSAID) Equal(o RSAID) bool { return subtle.ConstantTimeCompare(id[:], o[:]) == 1 }

// LogValue returns a redacted form. It can tell a few relays apart, but does not
// identify one among all relays.
func (id RSAID) LogValue() slog.Value { return slog.StringValue("$" + id.String()[:4] + "…") }

// String returns the identity in base64 without padding.
func (id Ed25519ID) String() string { return base64.RawStdEncoding.EncodeToString(id[:]) }

// IsZero reports whether the identity is absent.
func (id Ed25519ID) IsZero() bool { return id == Ed25519ID{} }

// Equal compares in constant time.
func (id Ed25519ID) Equal(o Ed25519ID) bool { return subtle.ConstantTimeCompare(id[:], o[:]) == 1 }

// LogValue redacts all but the first characters.
func (id Ed25519ID) LogValue() slog.Value { return slog.StringValue(id.String()[:4] + "…") }

// String returns the key in base64 without padding.
func (k X25519Key) String() string { return base64.RawStdEncoding.EncodeToString(k[:]) }

// IsZero reports whether the key is absent.
func (k X25519Key) IsZero() bool { return k == X25519Key{} }

// RelayID is how a relay is named: by both identities where both are known. A
// zero field is an unknown identity, never a wildcard for comparison of a
// known one.
type RelayID struct {
	RSA RSAID
	Ed  Ed25519ID
}

// Matches reports whether got has every identity that want names.
func (want RelayID) Matches(got RelayID) bool {
	if want.RSA.IsZero() && want.Ed.IsZero() {
		return false
	}
	return (want.RSA.IsZero() || want.RSA.Equal(got.RSA)) && (want.Ed.IsZero() || want.Ed.Equal(got.Ed))
}

// LogValue redacts both identities.
func (id RelayID) LogValue() slog.Value { return id.RSA.LogValue() }
