package layer

import (
	"encoding/binary"

	"github.com/chivenet/chive/internal/cell"
)

// uivKeyLen is the length of UIV+'s keys: KB and KU of the tweakable block
// cipher, then K and B of the pseudorandom function, 16 bytes each.
const uivKeyLen = 64

// prfCounters is the offset in blocks of the second stream of the pseudorandom
// function: the first stream has 493 bytes, which are 31 blocks.
const prfCounters = 31

// freshLen is the length of that second stream: new keys and a new nonce.
const freshLen = uivKeyLen + cgoTagLen

// uiv is the wide-block cipher UIV+ of proposal 359 over one payload, X_L (16
// bytes) and X_R (493), in one sense, encryption or decryption: X_L goes through a
// block cipher that is tweaked with a hash of X_R, and X_R is xored with a stream
// that the encrypted X_L selects.
type uiv interface {
	setKeys(k *[uivKeyLen]byte)

	// crypt takes p with the tweak chain | cmd. After the call, chain holds the
	// encrypted X_L, which selects the stream: it is the T' of the next cell, both
	// for relays, which encrypt, and for clients, which decrypt.
	crypt(chain *[16]byte, cmd cell.Command, p *[cell.PayloadLen]byte)

	// rekey replaces the keys and the nonce with the second stream of the selector
	// of the last call of crypt (proposal 359, "UIV_UPDATE"). In all four uses,
	// this selector is the nonce that the proposal names as the input.
	rekey(nonce *[cgoTagLen]byte)
}

// sense is the direction of a uiv's crypt: encryption or decryption.
type sense bool

const (
	encrypts sense = false // relays
	decrypts sense = true  // clients
)

// form is one implementation of uiv.
type form struct {
	name string
	make func(sense) uiv
}

// forms lists the implementations that this CPU can run, the fastest first.
var forms = append(kernelForms(), form{"portable", func(s sense) uiv { return &portableUIV{sense: s} }})

func newUIV(s sense, k *[uivKeyLen]byte) uiv {
	u := forms[0].make(s)
	u.setKeys(k)
	return u
}

func tagOf(p *[cell.PayloadLen]byte) *[cgoTagLen]byte { return (*[cgoTagLen]byte)(p[:]) }

func xor16(a, b *[16]byte) {
	binary.LittleEndian.PutUint64(a[:8], binary.LittleEndian.Uint64(a[:8])^binary.LittleEndian.Uint64(b[:8]))
	binary.LittleEndian.PutUint64(a[8:], binary.LittleEndian.Uint64(a[8:])^binary.LittleEndian.Uint64(b[8:]))
}
