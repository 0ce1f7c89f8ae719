package handshake

import (
	"io"
	"reflect"
	"unsafe"

	"github.com/cloudflare/circl/kem"
	"github.com/cloudflare/circl/kem/mlkem/mlkem1024"
	"github.com/cloudflare/circl/kem/mlkem/mlkem512"
	"github.com/cloudflare/circl/kem/mlkem/mlkem768"

	"github.com/chivenet/chive/internal/fault"
)

// PQSet is a parameter set of ML-KEM (FIPS 203).
type PQSet uint8

// The parameter sets; the values are those on the wire. The zero value is none.
const (
	PQ512  PQSet = 1
	PQ768  PQSet = 2 // the default
	PQ1024 PQSet = 3
)

// pqSets describes each set, by its number.
var pqSets = [...]struct {
	name   string
	proto  string // PROTOID of the hybrid
	scheme kem.Scheme
}{
	PQ512:  {"pq512", "chive-ntor3-curve25519-mlkem512-sha3_256-1", mlkem512.Scheme()},
	PQ768:  {"pq768", "chive-ntor3-curve25519-mlkem768-sha3_256-1", mlkem768.Scheme()},
	PQ1024: {"pq1024", "chive-ntor3-curve25519-mlkem1024-sha3_256-1", mlkem1024.Scheme()},
}

// Valid reports whether s is one of the parameter sets.
func (s PQSet) Valid() bool { return s >= PQ512 && s <= PQ1024 }

// String returns "pq512", "pq768", "pq1024", or "none".
func (s PQSet) String() string {
	if !s.Valid() {
		return "none"
	}
	return pqSets[s].name
}

// EncapsulationKeyLen returns the length of EK in bytes; zero of no set.
func (s PQSet) EncapsulationKeyLen() int {
	if !s.Valid() {
		return 0
	}
	return pqSets[s].scheme.PublicKeySize()
}

// CiphertextLen returns the length of CT in bytes; zero of no set.
func (s PQSet) CiphertextLen() int {
	if !s.Valid() {
		return 0
	}
	return pqSets[s].scheme.CiphertextSize()
}

// kemKey is a decapsulation key.
type kemKey struct {
	set PQSet
	sk  kem.PrivateKey
}

// generate makes a key pair from 64 bytes of rand (FIPS 203's d and z).
func (k *kemKey) generate(rand io.Reader, set PQSet) (ek []byte, err error) {
	var seed [64]byte
	defer clear(seed[:])
	if _, err := io.ReadFull(rand, seed[:]); err != nil {
		return nil, fault.New(fault.Local, "make an ML-KEM key: %w", err)
	}
	pk, sk := pqSets[set].scheme.DeriveKeyPair(seed[:])
	k.set, k.sk = set, sk
	if ek, err = pk.MarshalBinary(); err != nil {
		return nil, fault.New(fault.Local, "make an ML-KEM key: %w", err)
	}
	return ek, nil
}

// decapsulate uses the key up.
func (k *kemKey) decapsulate(ct []byte) ([]byte, error) {
	defer k.wipe()
	return k.open(ct)
}

// open returns the secret in a ciphertext. One of the right length always yields
// a secret: if it is forged, one that nobody knows.
func (k *kemKey) open(ct []byte) ([]byte, error) {
	if k.sk == nil {
		return nil, errUsed("ML-KEM")
	}
	ss, err := pqSets[k.set].scheme.Decapsulate(k.sk, ct)
	if err != nil {
		return nil, fault.New(fault.Protocol, "ML-KEM ciphertext: %w", err)
	}
	return ss, nil
}

// encapsulate checks an encapsulation key as FIPS 203, section 7.2, asks
// (length and modulus) and makes a secret for it from 32 bytes of rand.
func encapsulate(rand io.Reader, set PQSet, ek []byte) (ct, ss []byte, err error) {
	s := pqSets[set].scheme
	pk, err := s.UnmarshalBinaryPublicKey(ek)
	if err != nil {
		return nil, nil, fault.New(fault.Protocol, "ML-KEM encapsulation key: %w", err)
	}
	var m [32]byte
	defer clear(m[:])
	if _, err := io.ReadFull(rand, m[:]); err != nil {
		return nil, nil, fault.New(fault.Local, "ML-KEM: %w", err)
	}
	if ct, ss, err = s.EncapsulateDeterministically(pk, m[:]); err != nil {
		return nil, nil, fault.New(fault.Local, "ML-KEM: %w", err)
	}
	return ct, ss, nil
}

// wipe overwrites the decapsulation key. The library keeps its secret half
// behind a private pointer and offers no way to erase it, so this walks there:
// every pointer in the key's struct leads to plain numbers, which become zero.
func (k *kemKey) wipe() {
	if k.sk == nil {
		return
	}
	v := reflect.ValueOf(k.sk).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			clear(unsafe.Slice((*byte)(f.UnsafePointer()), f.Type().Elem().Size()))
		}
	}
	v.SetZero()
	k.sk = nil
}
