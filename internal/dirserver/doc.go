package dirserver

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"math/bits"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

// Doc is a document to serve. All answers with it share it: it is immutable but
// for its encodings.
type Doc struct {
	body []byte
	enc  *encodings // nil: they are not kept
}

// encodings are a document's compressed forms, made when first asked for and
// kept.
type encodings struct {
	hour bool       // the document is served for an hour
	mu   sync.Mutex // guards what follows; held while one is made
	made map[string][]byte
}

// NewDoc returns a document that is compressed piece by piece for everyone who
// asks for it.
func NewDoc(body []byte) *Doc { return &Doc{body: body} }

// keptDoc returns a document whose compressed forms are kept: for what nearly
// all ask for.
func keptDoc(body []byte) *Doc { return &Doc{body: body, enc: new(encodings)} }

// hourDoc does the same for what is served for an hour by all caches: more work makes it smaller.
func hourDoc(body []byte) *Doc { return &Doc{body: body, enc: &encodings{hour: true}} }

// Bytes returns the document, not encoded.
func (d *Doc) Bytes() []byte { return d.body }

// encoded returns a compressed form of a document that keeps these. One makes
// it while others wait.
func (d *Doc) encoded(enc string) ([]byte, error) {
	if enc == "" {
		return d.body, nil
	}
	d.enc.mu.Lock()
	defer d.enc.mu.Unlock()
	if b, ok := d.enc.made[enc]; ok {
		return b, nil
	}
	b, err := encode(d.body, enc, d.enc.hour)
	if err != nil {
		return nil, err
	}
	if d.enc.made == nil {
		d.enc.made = map[string][]byte{}
	}
	d.enc.made[enc] = b
	return b, nil
}

// adopt takes over a compressed form that was made before.
func (d *Doc) adopt(enc string, b []byte) {
	d.enc.mu.Lock()
	defer d.enc.mu.Unlock()
	if d.enc.made == nil {
		d.enc.made = map[string][]byte{}
	}
	d.enc.made[enc] = b
}

// making bounds how many whole documents and diffs are made at once: each takes
// some megabytes meanwhile.
var making = make(chan struct{}, 2)

// encode compresses a whole document in a content encoding of dir-spec.
func encode(b []byte, enc string, hour bool) ([]byte, error) {
	making <- struct{}{}
	defer func() { <-making }()
	var out bytes.Buffer
	var w io.WriteCloser
	switch enc {
	case "gzip":
		w = gzip.NewWriter(&out)
	case "deflate": // zlib's format, as in HTTP
		w = zlib.NewWriter(&out)
	case "x-zstd":
		z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window(len(b))), zstd.WithLowerEncoderMem(true), zstd.WithEncoderLevel(zstdLevel(len(b), hour)))
		if err != nil {
			return nil, fault.Wrap(fault.Local, err)
		}
		w = z
	default:
		return nil, fault.New(fault.Local, "encoding %q", enc)
	}
	if _, err := w.Write(b); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	if err := w.Close(); err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	return bytes.Clone(out.Bytes()), nil // without what the buffer has to spare
}

// window returns the window of a zstd stream: no larger than the document needs, since who decodes takes as much memory.
func window(size int) int {
	return 1 << min(max(bits.Len(uint(size)), 10), 22)
}

// bestFrom is the size from which an hour's document is worth the best compression: its tables alone take 34 MB for the time.
const bestFrom = 1 << 20

// zstdLevel returns how hard to compress. A consensus of 9,000 relays (3.27 MB) takes 851 kB and 14 ms of a processor by default, and
// 817 kB and 150 ms with the best level. No setting of klauspost/compress makes it smaller: a larger window and entropy coding of
// all literals change nothing. The C library makes 774 kB, because it weighs all ways to write a piece; no encoder in Go does.
// 468 kB of a consensus are digests.
func zstdLevel(size int, hour bool) zstd.EncoderLevel {
	if hour && size >= bestFrom {
		return zstd.SpeedBestCompression
	}
	return zstd.SpeedDefault
}

// unpack undoes encode's zstd, of a whole consensus at most.
func unpack(b []byte) ([]byte, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(netdoc.MaxConsensus))
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	defer r.Close()
	out, err := r.DecodeAll(b, nil)
	return out, fault.Wrap(fault.Directory, err)
}
