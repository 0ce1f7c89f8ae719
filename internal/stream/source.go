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
	f := source{r: r, raw: socket(r), account: s.account}
	f.try = f.tryRead
	defer f.drop()
	for {
		b, err := f.read()
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

// source is what ReadFrom reads from.
type source struct {
	r       io.Reader
	raw     syscall.RawConn  // r's socket; nil when it has none
	account *account.Account // of buf, while it is there
	buf     *[sourceSize]byte
	n       int
	err     error
	try     func(fd uintptr) bool
}

// read returns some bytes, which are valid until the next call.
func (f *source) read() ([]byte, error) {
	if f.raw == nil {
		f.take()
		n, err := f.r.Read(f.buf[:])
		return f.buf[:n], err
	}
	if err := f.raw.Read(f.try); err != nil {
		return nil, err
	}
	if f.err == nil && f.n == 0 {
		return nil, io.EOF
	}
	return f.buf[:f.n], f.err
}

// tryRead reports whether there was something to read.
func (f *source) tryRead(fd uintptr) bool {
	f.take()
	f.n, f.err = nonblock.Read(fd, f.buf[:])
	if f.err != nonblock.ErrWait {
		return true
	}
	f.drop()
	return false
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
