package hsclient

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base32"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
)

// Key is the secret key by which the service at one address knows this client (rend-spec-v3,
// client authorization).
type Key struct {
	id     ident.Ed25519ID
	secret *ecdh.PrivateKey
}

// authInfix is between the address and the key in the text of a key.
const authInfix = ":descriptor:x25519:"

var base32NoPad = base32.StdEncoding.WithPadding(base32.NoPadding)

// NewKey makes a key for the service at an address.
func NewKey(address string) (*Key, error) {
	id, err := hscrypto.ReadAddress(address)
	if err != nil {
		return nil, fault.New(fault.Config, "onion service authorization: %w", err)
	}
	k, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fault.New(fault.Local, "onion service authorization: %w", err)
	}
	return &Key{id, k}, nil
}

// ParseKey reads a key in C tor's form: "ADDRESS:descriptor:x25519:KEY", with the address
// without ".onion" and the key in base32.
func ParseKey(text string) (*Key, error) {
	address, body, ok := strings.Cut(strings.TrimSpace(text), authInfix)
	if !ok || strings.Contains(body, ":") {
		return nil, fault.New(fault.Config, "onion service authorization: the form is ADDRESS:descriptor:x25519:KEY")
	}
	id, err := hscrypto.ParseAddress(strings.TrimSuffix(address, ".onion") + ".onion")
	if err != nil {
		return nil, fault.New(fault.Config, "onion service authorization: %w", err)
	}
	b, err := base32NoPad.DecodeString(strings.ToUpper(body))
	if err != nil || len(b) != 32 {
		return nil, fault.New(fault.Config, "onion service authorization: the key is not 52 letters and digits of base32")
	}
	secret, err := ecdh.X25519().NewPrivateKey(b)
	if err != nil {
		return nil, fault.New(fault.Config, "onion service authorization: %w", err)
	}
	return &Key{id, secret}, nil
}

// Text returns what ParseKey reads.
func (k *Key) Text() string {
	return strings.TrimSuffix(k.Address(), ".onion") + authInfix + base32NoPad.EncodeToString(k.secret.Bytes())
}

// Address returns the service's onion address, with ".onion".
func (k *Key) Address() string { return hscrypto.Address(k.id) }

// Public returns the public key, which the service has.
func (k *Key) Public() ident.X25519Key { return ident.X25519Key(k.secret.PublicKey().Bytes()) }

// Has reports whether a key is one of them.
func (k Keys) Has(key *Key) bool { return k[key.id] != nil && k[key.id].Equal(key.secret) }
