package chive

import (
	"crypto/ed25519"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
)

// OnionAddress returns the address of the onion service whose public key this is: 56 letters and digits, in
// lower case, and ".onion". It does not look at whether the key is a point of the curve.
func OnionAddress(key ed25519.PublicKey) (string, error) {
	if len(key) != ed25519.PublicKeySize {
		return "", fault.New(fault.Config, "onion address: its key has %d bytes, not %d", len(key), ed25519.PublicKeySize)
	}
	return hscrypto.Address(ident.Ed25519ID(key)), nil
}

// ParseOnionAddress returns the public key of an onion service by its address. Host names before the address,
// as in "www.ADDRESS.onion", and the case of letters mean nothing. An address with a wrong checksum or another
// version than 3, or whose key is not a point of prime order, is an error, which does not contain the address.
func ParseOnionAddress(host string) (ed25519.PublicKey, error) {
	id, err := hscrypto.ParseAddress(host)
	if err != nil {
		return nil, err
	}
	return id[:], nil
}

// IsOnionHost reports whether host is a name below .onion, valid or not, with any number of dots after it. Such
// a name has no meaning outside the Tor network, and must never be sent to a name server.
func IsOnionHost(host string) bool { return hscrypto.IsAddress(host) }
