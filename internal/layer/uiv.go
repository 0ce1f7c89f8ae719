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

// uiv is the wide-block cipher UIV+ of proposal 359 over one payload, X_L (16
// bytes) and X_R (493): X_L passes a block cipher tweaked with a hash of X_R,
// and X_R is then masked with a stream that X_L selects.
type uiv struct {
	kb aesKey  // block cipher
	ku polyKey // hash of its tweak
	k  aesKey  // stream cipher
	b  polyKey // hash of the stream's selector

	// Scratch. On the stack these would escape into the portable form's
	// interfaces, one allocation each.
	left  [16]byte
	iv    [16]byte
	fresh [uivKeyLen + 16]byte
}

func (u *uiv) setKeys(k *[uivKeyLen]byte) {
	u.kb.set((*[16]byte)(k[0:]))
	u.kb.invert()
	u.ku.set((*[16]byte)(k[16:]))
	u.k.set((*[16]byte)(k[32:]))
	u.b.set((*[16]byte)(k[48:]))
}

// encrypt encrypts p with the tweak h | cmd.
func (u *uiv) encrypt(h *[16]byte, cmd cell.Command, p *[cell.PayloadLen]byte) {
	u.left = *tagOf(p)
	m := u.mask(h, cmd, p)
	xor16(&u.left, &m)
	u.kb.encrypt(&u.left)
	xor16(&u.left, &m)
	*tagOf(p) = u.left
	u.stream(&u.left, 0, p[16:])
}

// decrypt is encrypt's inverse.
func (u *uiv) decrypt(h *[16]byte, cmd cell.Command, p *[cell.PayloadLen]byte) {
	u.left = *tagOf(p)
	u.stream(&u.left, 0, p[16:])
	m := u.mask(h, cmd, p)
	xor16(&u.left, &m)
	u.kb.decrypt(&u.left)
	xor16(&u.left, &m)
	*tagOf(p) = u.left
}

// mask hashes h | cmd | X_R, 510 bytes zero-padded to 32 blocks. Only the first
// four blocks and the last four are copied; the rest is hashed where it stands.
func (u *uiv) mask(h *[16]byte, cmd cell.Command, p *[cell.PayloadLen]byte) (m [16]byte) {
	var head, tail [64]byte
	copy(head[:], h[:])
	head[16] = byte(cmd)
	copy(head[17:], p[16:63])
	copy(tail[:], p[447:])
	var acc gf128
	u.ku.absorb(&acc, head[:])
	u.ku.absorb(&acc, p[63:447])
	u.ku.absorb(&acc, tail[:])
	acc.store(&m)
	return m
}

// stream xors dst with the stream that sel selects, from the given block.
func (u *uiv) stream(sel *[16]byte, block byte, dst []byte) {
	var acc gf128
	u.b.absorb(&acc, sel[:])
	acc.store(&u.iv)
	// The counter's last six bits are cleared: 64 blocks without a carry.
	u.iv[15] = u.iv[15]&0xc0 + block
	u.k.counter(&u.iv, dst)
}

// update derives new keys, and a new nonce, from a nonce; next may be the same
// memory.
func (u *uiv) update(nonce, next *[16]byte) {
	u.stream(nonce, prfCounters, u.fresh[:])
	u.setKeys((*[uivKeyLen]byte)(u.fresh[:]))
	*next = [16]byte(u.fresh[uivKeyLen:])
	clear(u.fresh[:])
}

func xor16(a, b *[16]byte) {
	binary.LittleEndian.PutUint64(a[:8], binary.LittleEndian.Uint64(a[:8])^binary.LittleEndian.Uint64(b[:8]))
	binary.LittleEndian.PutUint64(a[8:], binary.LittleEndian.Uint64(a[8:])^binary.LittleEndian.Uint64(b[8:]))
}
