package hscrypto

import (
	"bytes"
	"encoding/base32"
	"strings"

	"filippo.io/edwards25519"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

const (
	suffix     = ".onion"
	version    = 3
	addressLen = 56 // of base32, without the suffix
)

var encoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// IsAddress reports whether host is a name below .onion, valid or not, with any
// number of dots after it. Such a name has no meaning outside the Tor network, and
// must never be sent to a name server.
func IsAddress(host string) bool {
	host = strings.ToLower(strings.TrimRight(host, "."))
	return host == "onion" || strings.HasSuffix(host, suffix)
}

// Address returns the onion address of a service's identity, with ".onion".
func Address(id ident.Ed25519ID) string {
	sum := checksum(id)
	b := append(append(id[:], sum[:]...), version)
	return strings.ToLower(encoding.EncodeToString(b)) + suffix
}

// ParseAddress reads an onion address (rend-spec-v3, ONIONADDRESS). It ignores
// host names before the address, as in "www.ADDRESS.onion", which only the
// service uses. It refuses an address with a wrong checksum or another version,
// or whose key is not a point of prime order; the error does not contain the
// address.
func ParseAddress(host string) (ident.Ed25519ID, error) {
	id, err := ReadAddress(host)
	if err != nil {
		return id, err
	}
	if _, err := point(id); err != nil {
		return ident.Ed25519ID{}, fault.New(fault.Config, "onion address: %w", err)
	}
	return id, nil
}

// ReadAddress is ParseAddress without the look at the key's point, which takes longer
// than all else, and which Blind does too.
func ReadAddress(host string) (ident.Ed25519ID, error) {
	var id ident.Ed25519ID
	name, ok := strings.CutSuffix(strings.ToLower(strings.TrimSuffix(host, ".")), suffix)
	if !ok {
		return id, fault.New(fault.Config, "onion address: it does not end in %s", suffix)
	}
	name = name[strings.LastIndexByte(name, '.')+1:]
	if len(name) != addressLen {
		return id, fault.New(fault.Config, "onion address: %d characters before %s, not %d", len(name), suffix, addressLen)
	}
	b, err := encoding.DecodeString(strings.ToUpper(name))
	// The decoder passes over line breaks, and ToUpper makes ASCII of some other letters.
	if err != nil || strings.ToLower(encoding.EncodeToString(b)) != name {
		return id, fault.New(fault.Config, "onion address: it is not base32: a letter or digit is mistyped")
	}
	if b[34] != version {
		return id, fault.New(fault.Config, "onion address: version %d, not %d", b[34], version)
	}
	copy(id[:], b)
	if sum := checksum(id); !bytes.Equal(sum[:], b[32:34]) {
		return ident.Ed25519ID{}, fault.New(fault.Config, "onion address: the checksum is wrong: a letter or digit is mistyped")
	}
	return id, nil
}

func checksum(id ident.Ed25519ID) (sum [2]byte) {
	h := hash([]byte(".onion checksum"), id[:], []byte{version})
	return [2]byte(h[:2])
}

// inverseOf8 is 1/8 modulo the order of the base point.
var inverseOf8 = func() *edwards25519.Scalar {
	eight, err := edwards25519.NewScalar().SetCanonicalBytes(append([]byte{8}, make([]byte, 31)...))
	if err != nil {
		panic(err) // 8 is smaller than the order
	}
	return eight.Invert(eight)
}()

// point decodes a public key, and refuses one with a part of small order: several
// such keys have the same secrets (rend-spec-v3 asks for the check).
func point(id ident.Ed25519ID) (*edwards25519.Point, error) {
	p, err := new(edwards25519.Point).SetBytes(id[:])
	if err != nil {
		return nil, fault.New(fault.Protocol, "the key is no point of the curve")
	}
	// Multiplication by 1/8 and then by 8 does not change a point of prime order,
	// but removes a part of small order.
	q := new(edwards25519.Point).ScalarMult(inverseOf8, p)
	if q.MultByCofactor(q); q.Equal(p) != 1 || p.Equal(edwards25519.NewIdentityPoint()) == 1 {
		return nil, fault.New(fault.Protocol, "the key is not of prime order")
	}
	return p, nil
}
