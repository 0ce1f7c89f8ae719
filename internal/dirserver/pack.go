package dirserver

import (
	"encoding/binary"
	"hash"
	"hash/adler32"
	"hash/crc32"
	"runtime"
	"sync"

	"compress/flate"
	"github.com/klauspost/compress/zstd"

	"github.com/chivenet/chive/internal/fault"
)

// packer compresses an answer piece by piece as it is sent. It keeps nothing
// between two pieces but a checksum: who asks for much and reads nothing costs
// one piece, and no compressor. The pieces together are one stream of the
// encoding, for deflate and gzip, and frames one after the other for zstd.
type packer struct {
	enc   string
	begun bool
	sum   hash.Hash32 // of what is not compressed; nil for zstd, whose frames have their own
	n     uint32      // its length, modulo 2^32
}

func newPacker(enc string) (*packer, error) {
	switch enc {
	case "gzip":
		return &packer{enc: enc, sum: crc32.NewIEEE()}, nil
	case "deflate":
		return &packer{enc: enc, sum: adler32.New()}, nil
	case "x-zstd":
		return &packer{enc: enc}, nil
	}
	return nil, fault.New(fault.Local, "encoding %q", enc)
}

// Heads of a gzip stream (RFC 1952: no name, no time, unknown system) and of a
// zlib one (RFC 1950: window of 32 kB, default level).
var (
	gzipHead = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}
	zlibHead = []byte{0x78, 0x9c}
	// lastBlock is an empty block that ends a deflate stream (RFC 1951, 3.2.6).
	lastBlock = []byte{0x03, 0x00}
)

// append compresses a piece; last says that no other follows.
func (p *packer) append(dst, piece []byte, last bool) ([]byte, error) {
	if p.enc == "x-zstd" {
		return zstdEncoder().EncodeAll(piece, dst), nil
	}
	if !p.begun {
		p.begun = true
		if p.enc == "gzip" {
			dst = append(dst, gzipHead...)
		} else {
			dst = append(dst, zlibHead...)
		}
	}
	p.sum.Write(piece)
	p.n += uint32(len(piece))
	dst, err := deflate(dst, piece)
	if err != nil || !last {
		return dst, err
	}
	dst = append(dst, lastBlock...)
	if p.enc == "gzip" {
		dst = binary.LittleEndian.AppendUint32(dst, p.sum.Sum32())
		return binary.LittleEndian.AppendUint32(dst, p.n), nil
	}
	return binary.BigEndian.AppendUint32(dst, p.sum.Sum32()), nil
}

// compressors is how many compress at once, of each kind: one processor, if
// there are two, is left to those who move cells. Nobody keeps a compressor
// while a peer is waited for.
var compressors = max(1, runtime.GOMAXPROCS(0)-1)

// deflaters are the compressors for deflate that are at rest; nil ones are yet
// to be made.
var deflaters = sync.OnceValue(func() chan *flate.Writer {
	c := make(chan *flate.Writer, compressors)
	for range compressors {
		c <- nil
	}
	return c
})

var zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(compressors), zstd.WithWindowSize(64<<10), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // by the options, which are constant
	}
	return z
})

// sink is a slice that is written to.
type sink []byte

func (s *sink) Write(b []byte) (int, error) {
	*s = append(*s, b...)
	return len(b), nil
}

// deflate appends a piece as deflate blocks that refer to nothing before them
// and end at a whole byte.
func deflate(dst, piece []byte) ([]byte, error) {
	pool := deflaters()
	w := <-pool
	defer func() { pool <- w }()
	out := sink(dst)
	if w == nil {
		var err error
		if w, err = flate.NewWriter(&out, flate.DefaultCompression); err != nil {
			return nil, fault.Wrap(fault.Local, err)
		}
	} else {
		w.Reset(&out)
	}
	if _, err := w.Write(piece); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	if err := w.Flush(); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	w.Reset(nil) // it is to keep nobody's buffer
	return out, nil
}
