package stream

import (
	"sync"

	"github.com/chivenet/chive/internal/account"
)

// chunkSize is how much a receive chunk holds: the DATA cells of two records and
// more. The whole chunk has a size that the allocator has, too.
const (
	chunkCost = 32 << 10
	chunkSize = chunkCost - 24
)

type chunk struct {
	next *chunk
	r, w int
	b    [chunkSize]byte
}

var chunkPool = sync.Pool{New: func() any { return new(chunk) }}

func putChunk(c *chunk, a *account.Account) {
	a.Release(chunkCost)
	c.r, c.w, c.next = 0, 0, nil
	chunkPool.Put(c)
}

// buffer is a FIFO of bytes that holds no memory while it is empty; otherwise
// its chunks are on the stream's account.
type buffer struct {
	head, tail *chunk
	n          int
}

func (b *buffer) write(p []byte, a *account.Account) {
	b.n += len(p)
	for len(p) > 0 {
		if b.tail == nil || b.tail.w == chunkSize {
			c := chunkPool.Get().(*chunk)
			a.Reserve(chunkCost)
			if b.tail == nil {
				b.head = c
			} else {
				b.tail.next = c
			}
			b.tail = c
		}
		k := copy(b.tail.b[b.tail.w:], p)
		b.tail.w += k
		p = p[k:]
	}
}

func (b *buffer) read(p []byte, a *account.Account) int {
	n := 0
	for n < len(p) && b.head != nil {
		c := b.head
		k := copy(p[n:], c.b[c.r:c.w])
		c.r += k
		n += k
		if c.r == c.w {
			b.head = c.next
			if b.head == nil {
				b.tail = nil
			}
			putChunk(c, a)
		}
	}
	b.n -= n
	return n
}

// take removes the first chunk as a whole; the caller returns it by putChunk.
func (b *buffer) take() *chunk {
	c := b.head
	if c == nil {
		return nil
	}
	b.head = c.next
	if b.head == nil {
		b.tail = nil
	}
	b.n -= c.w - c.r
	return c
}

// putBack undoes take, for the rest of the chunk.
func (b *buffer) putBack(c *chunk) {
	if c.next = b.head; c.next == nil {
		b.tail = c
	}
	b.head = c
	b.n += c.w - c.r
}

func (b *buffer) clear(a *account.Account) {
	for c := b.take(); c != nil; c = b.take() {
		putChunk(c, a)
	}
}
