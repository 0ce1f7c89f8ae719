package stream

import (
	"io"
	"sync"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/idle"
	"github.com/chivenet/chive/internal/nonblock"
)

// maxBatch is how many DATA cells are sealed at a time, two TLS records' worth;
// sourceSize is the number of bytes read at a time, the data of two batches: where a SENDME
// acknowledges 31 cells, one of these has 20 bytes less (see circuit.Hop.SendData).
const (
	maxBatch   = 62
	sourceSize = 2 * (maxBatch*498 - 2*20)
	sourceCost = 64 << 10 // its size in the allocator
)

// firstSize is the number of bytes that are read at first: most connections have few
// bytes at a time. A read that fills it is followed by larger ones.
const firstSize = 4 << 10

var (
	sourcePool = sync.Pool{New: func() any { return new([sourceSize]byte) }}
	firstPool  = sync.Pool{New: func() any { return new([firstSize]byte) }}
)

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
	raw     rawReader        // r's socket; nil when it has none
	account *account.Account // of buf, while it is there
	buf     []byte
	first   *[firstSize]byte // buf's, or
	large   *[sourceSize]byte
	much    bool // the first buffer was filled
	wait    bool // for something to read
	n       int
	err     error
	try     func(fd uintptr) bool
}

// rawReader is the part of syscall.RawConn that a source needs.
type rawReader interface {
	Read(f func(fd uintptr) (done bool)) error
}

func newSource(r io.Reader, a *account.Account) *source {
	f := &source{r: r, account: a}
	if raw := idle.Kernel(r); raw != nil {
		f.raw = raw
	}
	f.try = f.tryRead
	return f
}

// read returns some bytes, which are valid until the next call. If there are none and it
// must not wait, the error is nonblock.ErrWait; what is no socket, it always waits for.
func (f *source) read(wait bool) ([]byte, error) {
	if f.raw == nil {
		f.take()
		n, err := f.r.Read(f.buf)
		f.much = f.much || n == len(f.buf)
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
	f.n, f.err = nonblock.Read(fd, f.buf)
	f.much = f.much || f.n == len(f.buf)
	if f.err != nonblock.ErrWait {
		return true
	}
	f.drop()
	return !f.wait
}

// take makes sure that there is a buffer of the right size.
func (f *source) take() {
	switch {
	case f.large != nil, f.first != nil && !f.much:
		return
	case f.much:
		f.drop()
		f.large = sourcePool.Get().(*[sourceSize]byte)
		f.buf = f.large[:]
	default:
		f.first = firstPool.Get().(*[firstSize]byte)
		f.buf = f.first[:]
	}
	f.account.Reserve(f.cost())
}

// cost is what buf counts on the account.
func (f *source) cost() int {
	if f.large != nil {
		return sourceCost
	}
	return firstSize
}

// drop gives the buffer back.
func (f *source) drop() {
	if f.buf == nil {
		return
	}
	f.account.Release(f.cost())
	if f.large != nil {
		sourcePool.Put(f.large)
	} else {
		firstPool.Put(f.first)
	}
	f.buf, f.first, f.large = nil, nil, nil
}
