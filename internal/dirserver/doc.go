package dirserver

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/chivenet/chive/internal/fault"
)

// Doc is a document to serve. It is immutable but for its encodings, which are
// made when first asked for and kept.
type Doc struct {
	body []byte
	keep bool // whether encodings are kept

	mu  sync.Mutex // guards enc
	enc map[string][]byte
}

// NewDoc returns a document whose encodings are not kept.
func NewDoc(body []byte) *Doc { return &Doc{body: body} }

// Bytes returns the document, not encoded.
func (d *Doc) Bytes() []byte { return d.body }

func (d *Doc) encoded(enc string) ([]byte, error) {
	if enc == "" || !d.keep {
		return encode(d.body, enc)
	}
	d.mu.Lock() // one makes it while others wait
	defer d.mu.Unlock()
	if b, ok := d.enc[enc]; ok {
		return b, nil
	}
	b, err := encode(d.body, enc)
	if err == nil {
		if d.enc == nil {
			d.enc = map[string][]byte{}
		}
		d.enc[enc] = b
	}
	return b, err
}

// encode compresses in a content encoding of dir-spec.
func encode(b []byte, enc string) ([]byte, error) {
	var out bytes.Buffer
	var w io.WriteCloser
	switch enc {
	case "":
		return b, nil
	case "gzip":
		w = gzip.NewWriter(&out)
	case "deflate": // zlib's format, as in HTTP
		w = zlib.NewWriter(&out)
	case "x-zstd":
		z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<22), zstd.WithLowerEncoderMem(true))
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
	return out.Bytes(), nil
}
