package chive

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsservice"
)

// OnionKey is the secret key of an onion service: whoever has it can be the service. The
// zero OnionKey is no key. It has two forms, both C tor's: Text and MarshalBinary.
//
// The secret is only where it is asked for: with fmt, in logs and as a part of something else an
// OnionKey is "[scrubbed]", and encoding/json refuses it.
type OnionKey struct{ k *hsservice.Key }

// keyPrefix begins the text of a key, as C tor's command ADD_ONION has it (control-spec).
const keyPrefix = "ED25519-V3:"

// NewOnionKey makes a key.
func NewOnionKey() (OnionKey, error) {
	k, err := hsservice.NewKey()
	if err != nil {
		return OnionKey{}, err
	}
	return OnionKey{k}, nil
}

// ParseOnionKey reads the text of a key.
func ParseOnionKey(text string) (OnionKey, error) {
	body, ok := strings.CutPrefix(strings.TrimSpace(text), keyPrefix)
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(body, "="))
	if !ok || err != nil { // which would name what it has read
		return OnionKey{}, fault.New(fault.Config, "onion service's key: it is not %s and 64 bytes in base64", keyPrefix)
	}
	k, err := hsservice.ParseKey(b)
	if err != nil {
		return OnionKey{}, err
	}
	return OnionKey{k}, nil
}

// IsZero reports whether there is no key.
func (k OnionKey) IsZero() bool { return k.k == nil }

// Equal reports whether two keys are the same service's.
func (k OnionKey) Equal(other OnionKey) bool { return k.Address() == other.Address() }

// Address returns the service's onion address, with ".onion"; empty: there is no key.
func (k OnionKey) Address() string {
	if k.IsZero() {
		return ""
	}
	return k.k.Address()
}

// Text returns the secret as C tor's control port has it, in ADD_ONION: "ED25519-V3:" and the
// expanded key in base64; empty: there is no key.
func (k OnionKey) Text() string {
	if k.IsZero() {
		return ""
	}
	return keyPrefix + base64.StdEncoding.EncodeToString(k.k.Bytes())
}

// UnmarshalText reads the text of a key.
func (k *OnionKey) UnmarshalText(b []byte) error {
	read, err := ParseOnionKey(string(b))
	if err == nil {
		*k = read
	}
	return err
}

// MarshalText returns an error, so that nobody writes the secret with something else, or loses
// it: use Text.
func (k OnionKey) MarshalText() ([]byte, error) { return nil, errSecretText }

// MarshalBinary returns the secret as the file hs_ed25519_secret_key of C tor's HiddenServiceDir
// has it.
func (k OnionKey) MarshalBinary() ([]byte, error) {
	if k.IsZero() {
		return nil, fault.New(fault.Config, "onion service's key: there is none")
	}
	return k.k.File(), nil
}

// UnmarshalBinary reads what MarshalBinary returns.
func (k *OnionKey) UnmarshalBinary(b []byte) error {
	read, err := hsservice.ParseKeyFile(b)
	if err == nil {
		k.k = read
	}
	return err
}

// Format writes "[scrubbed]" for every verb.
func (OnionKey) Format(f fmt.State, _ rune) { writeScrubbed(f) }

// String returns "[scrubbed]".
func (OnionKey) String() string { return scrubbed }

// LogValue returns "[scrubbed]".
func (OnionKey) LogValue() slog.Value { return slog.StringValue(scrubbed) }

// scrubbed stands for a secret.
const scrubbed = "[scrubbed]"

func writeScrubbed(f fmt.State) { fmt.Fprint(f, scrubbed) }

var errSecretText = fault.New(fault.Config, "a secret key is not written with something else: ask for its Text")
