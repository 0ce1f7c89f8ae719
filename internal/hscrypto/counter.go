package hscrypto

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// maxAge is the greatest age for which a counter has a value, in seconds: about
// 72 hours.
const maxAge = 1 << 18

// Counter makes the revision counters of one blinded key's descriptors. They grow
// with time but do not reveal it: the encryption preserves the order
// (rend-spec-v3, appendix F). The key is the same as C tor's, so that the
// counters of a service continue to grow if it moves between the two programs.
type Counter struct{ block cipher.Block }

// NewCounter returns the counter of a blinded secret key.
func NewCounter(blinded [SecretLen]byte) (*Counter, error) {
	key := hash([]byte("rev-counter-generation\x00"), blinded[:])
	return newCounter(key)
}

func newCounter(key [32]byte) (*Counter, error) {
	b, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	return &Counter{b}, nil
}

// At returns the counter of a descriptor that is made the given number of seconds
// after the start of the protocol run for its shared random value. The number
// must be 1 or more.
func (c *Counter) At(seconds int) (uint64, error) {
	if seconds < 1 || seconds > maxAge {
		return 0, fault.New(fault.Local, "revision counter: %d seconds are not from 1 to %d: is the clock right?", seconds, maxAge)
	}
	return c.sum(seconds), nil
}

// sum is At for a number that is in the bounds.
func (c *Counter) sum(seconds int) uint64 {
	stream := cipher.NewCTR(c.block, make([]byte, aes.BlockSize))
	var sum uint64
	var buf [4096]byte
	for left := seconds; left > 0; {
		part := buf[:min(2*left, len(buf))]
		clear(part)
		stream.XORKeyStream(part, part)
		for i := 0; i < len(part); i += 2 {
			sum += uint64(binary.LittleEndian.Uint16(part[i:])) + 1
		}
		left -= len(part) / 2
	}
	return sum
}

// Within returns the counter of a descriptor that is made at an age of the protocol run for its shared random value. It is At of
// that second or between that and the next: a service that ends and begins again in one second needs a greater one, and it has no memory.
func (c *Counter) Within(age time.Duration) (uint64, error) {
	second := int(age/time.Second) + 1
	from, err := c.At(second)
	if err != nil {
		return 0, err
	}
	to := c.sum(min(second+1, maxAge))
	return from + (to-from)*uint64(max(0, age%time.Second))/uint64(time.Second), nil
}
