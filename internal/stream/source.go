package stream

import (
	"io"
	"sync"
	"syscall"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/nonblock"
)

// maxBatch is how many DATA cells are sealed at a time, two TLS records' worth;
// sourceSize is the number of bytes read at a time, the data of two batches.
const (
	maxBatch   = 62
	sourceSize = 2 * maxBatch * 498
	sourceCost = 64 << 10 // its size in the allocator
)

var sourcePool = sync.Pool{New: func() any { return new([sourceSize]byte) }}

// ReadFrom implements io.ReaderFrom with a buffer that fills whole cells. While
// it waits for a socket it holds none.
func (s *Stream) ReadFrom(r io.Reader) (total int64, err error) {
	f := newSource(r, s.account)
	defer f.drop()
	for {
		b, err := f.read(true)
		if len(b) > 0 {
			k, werr := s.Write(b)
			total += int64(k)
			if werr != nil {
				return total, werr
			}
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// source is what a stream's bytes are read from.
type source struct {
	r       io.Reader
	raw     syscall.RawConn  // r's socket; nil when it has none
	account *account.Account // of buf, while it is there
	buf     *[sourceSize]byte
	wait    bool // for something to read
	n       int
	err     error
	try     func(fd uintptr) bool
}

func newSource(r io.Reader, a *account.Account) *source {
	f := &source{r: r, raw: socket(r), account: a}
	f.try = f.tryRead
	return f
}

// read returns some bytes, which are valid until the next call. If there are none and it
// must not wait, the error is nonblock.ErrWait; what is no socket, it always waits for.
func (f *source) read(wait bool) ([]byte, error) {
	if f.raw == nil {
		f.take()
		n, err := f.r.Read(f.buf[:])
		return f.buf[:n], err
	}
	f.wait = wait
	if err := f.raw.Read(f.try); err != nil {
		return nil, err
	}
	if f.err != nil {
		return nil, f.err
	}
	if f.n == 0 {
		return nil, io.EOF
	}
	return f.buf[:f.n], nil
}

// tryRead reports whether there was something to read, or whether nobody waits for that.
func (f *source) tryRead(fd uintptr) bool {
	f.take()
	f.n, f.err = nonblock.Read(fd, f.buf[:])
	if f.err != nonblock.ErrWait {
		return true
	}
	f.drop()
	return !f.wait
}

func (f *source) take() {
	if f.buf == nil {
		f.buf = sourcePool.Get().(*[sourceSize]byte)
		f.account.Reserve(sourceCost)
	}
}

func (f *source) drop() {
	if f.buf != nil {
		f.account.Release(sourceCost)
		sourcePool.Put(f.buf)
		f.buf = nil
	}
}
