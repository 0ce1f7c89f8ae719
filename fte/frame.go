package fte

import (
	"sync"

	"github.com/chivenet/chive/internal/account"
)

// Buffers have three sizes, so that an idle connection holds almost nothing and a
// busy one reads and writes large pieces.
const (
	smallFrame = 2 << 10                // a hello, or the bytes that are left between reads
	wireFrame  = 64 << 10               // one read or write
	largeFrame = MaxClassicCell + 8<<10 // the longest cell that a peer may send
)

var framePools = [...]struct {
	size int
	pool sync.Pool
}{{size: smallFrame}, {size: wireFrame}, {size: largeFrame}}

// frame is a pooled buffer; B has the full length of its size.
type frame struct {
	B     []byte
	class int
	mem   *account.Account // the account that counts the frame while it is in use
}

// getFrame returns a frame of at least size bytes and counts it on mem. size must
// be at most largeFrame.
func getFrame(mem *account.Account, size int) *frame {
	for i := range framePools {
		p := &framePools[i]
		if size > p.size {
			continue
		}
		f, ok := p.pool.Get().(*frame)
		if !ok {
			f = &frame{B: make([]byte, p.size), class: i}
		}
		mem.Reserve(p.size)
		f.mem = mem
		return f
	}
	panic("fte: a frame above the largest size")
}

// put returns the frame to its pool; f may be nil.
func (f *frame) put() {
	if f != nil {
		f.mem.Release(len(f.B))
		f.mem = nil
		framePools[f.class].pool.Put(f)
	}
}

// inbox holds the bytes that were received but not yet opened. It owns at most
// one frame, and none while it is empty.
type inbox struct {
	mem  *account.Account
	f    *frame
	r, w int
}

func (b *inbox) bytes() []byte {
	if b.f == nil {
		return nil
	}
	return b.f.B[b.r:b.w]
}

// take removes n opened bytes.
func (b *inbox) take(n int) {
	b.r += n
	if b.r == b.w {
		b.r, b.w = 0, 0
	}
}

// rest frees memory before a wait of unknown length: an empty inbox gives its
// frame back, and an inbox of a few bytes moves them to a small frame.
func (b *inbox) rest() {
	n := b.w - b.r
	switch {
	case b.f == nil:
	case n == 0:
		b.f.put()
		b.f, b.r, b.w = nil, 0, 0
	case n <= smallFrame && len(b.f.B) > smallFrame:
		b.move(getFrame(b.mem, smallFrame))
	}
}

// space returns free space of at least one byte. It makes the frame large enough
// for want bytes in total; want must be at most largeFrame.
func (b *inbox) space(want int) []byte {
	n := b.w - b.r
	want = max(want, n+1, wireFrame)
	if b.f == nil || len(b.f.B) < want {
		b.move(getFrame(b.mem, want))
	} else if len(b.f.B)-b.r < want || b.r > len(b.f.B)/2 {
		copy(b.f.B, b.f.B[b.r:b.w])
		b.r, b.w = 0, n
	}
	return b.f.B[b.w:]
}

// move puts the bytes into another frame.
func (b *inbox) move(f *frame) {
	n := copy(f.B, b.bytes())
	b.f.put()
	b.f, b.r, b.w = f, 0, n
}

// drop releases everything.
func (b *inbox) drop() {
	b.f.put()
	b.f, b.r, b.w = nil, 0, 0
}
