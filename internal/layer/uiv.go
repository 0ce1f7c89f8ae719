package layer

import (
	"encoding/binary"

	"github.com/chivenet/chive/internal/cell"
)

// uivKeyLen is the length of UIV+'s keys: KB and KU of the tweakable block
// cipher, then K and B of the pseudorandom function, 16 bytes each.
const uivKeyLen = 64

// prfCounters is where the second stream of the pseudorandom function begins,
// in blocks: the first one is 493 bytes, 31 blocks, long.
const prfCounters = 31

// freshLen is the length of that second stream: new keys and a new nonce.
const freshLen = uivKeyLen + cgoTagLen

// uiv is the wide-block cipher UIV+ of proposal 359 over one payload, X_L (16
// bytes) and X_R (493), in one sense, encryption or decryption: X_L passes a
// block cipher tweaked with a hash of X_R, and X_R is masked with a stream that
// the encrypted X_L selects.
type uiv interface {
	setKeys(k *[uivKeyLen]byte)

	// crypt takes p with the tweak chain | cmd. The encrypted X_L, which selects
	// the stream, then stands in chain: it is the T' of the next cell, for
	// relays, which encrypt, and for clients, which decrypt.
	crypt(chain *[16]byte, cmd cell.Command, p *[cell.PayloadLen]byte)

	// rekey replaces the keys and the nonce by the second stream that the same
	// selector as in the last call of crypt yields (proposal 359,
	// "UIV_UPDATE"). In all four uses the nonce that the proposal names as the
	// input is this selector.
	rekey(nonce *[cgoTagLen]byte)
}

// sense says what a uiv's crypt does.
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

// forms are those that this CPU can run, the fastest first.
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
