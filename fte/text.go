package fte

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/chivenet/chive/fte/lang"
	"github.com/chivenet/chive/internal/fault"
)

// textWriter encodes the messages of one direction as text of a language.
type textWriter interface {
	// append encodes a message of two chunks and appends the text to dst. The
	// reader must know the lengths of the chunks. The second chunk may be empty.
	append(dst, head, body []byte) ([]byte, error)
	// finish ends the text so that it is a word of the language. Nothing may
	// follow it.
	finish(dst []byte) ([]byte, error)
	// takes estimates how many bytes of text n bytes need.
	takes(n int) int
	// holds estimates how many bytes fit into n bytes of text.
	holds(n int) int
}

// textReader decodes what a textWriter encoded.
type textReader interface {
	// begin starts the next chunk, which fills dst.
	begin(dst []byte)
	// write decodes text. It returns how many bytes of text it used, and whether
	// the chunk is complete.
	write(text []byte) (n int, done bool, err error)
	// end marks the end of the message; the padding after it is dropped.
	end()
	// finish reads what a textWriter's finish appended. It returns how many bytes
	// of text it used, and whether nothing more belongs to the text.
	finish(text []byte) (n int, done bool)
	// least returns how many bytes of text write needs to make progress.
	least() int
}

// writer returns a textWriter for the protocol's mode.
func (p *chiveProto) writer(f *Format) (textWriter, error) {
	w, err := f.Words()
	if err != nil {
		return nil, err
	}
	if w.Bytes() == 0 {
		return nil, fault.New(fault.Config, "a word of format %q holds less than one byte", f.Name)
	}
	if p.Mode != Strict {
		return &cellWriter{word: w, rand: p.Rand, x: make([]byte, w.Bytes())}, nil
	}
	l, err := f.stream()
	if err != nil {
		return nil, err
	}
	e, err := l.NewEncoder()
	if err != nil {
		return nil, err
	}
	return &streamWriter{e: e, rand: p.Rand, long: w.Len(), short: w.Bytes()}, nil
}

// reader returns a textReader for the protocol's mode.
func (p *chiveProto) reader(f *Format) (textReader, error) {
	w, err := f.Words()
	if err != nil {
		return nil, err
	}
	if p.Mode != Strict {
		return &cellReader{word: w, x: make([]byte, w.Bytes())}, nil
	}
	l, err := f.stream()
	if err != nil {
		return nil, err
	}
	d, err := l.NewDecoder()
	return &streamReader{d: d}, err
}

// streamWriter writes one endless word.
type streamWriter struct {
	e           *lang.Encoder
	rand        io.Reader
	pad         [8]byte
	long, short int // long bytes of text hold short bytes, as in words of the format's length
}

func (w *streamWriter) append(dst, head, body []byte) ([]byte, error) {
	for _, c := range [2][]byte{head, body} {
		if len(c) == 0 {
			continue
		}
		if _, err := io.ReadFull(w.rand, w.pad[:]); err != nil {
			return nil, fault.New(fault.Local, "reading randomness for a chunk's padding: %w", err)
		}
		dst = w.e.Append(dst, c, binary.BigEndian.Uint64(w.pad[:]))
	}
	return dst, nil
}

func (w *streamWriter) finish(dst []byte) ([]byte, error) {
	if _, err := io.ReadFull(w.rand, w.pad[:]); err != nil {
		return nil, fault.New(fault.Local, "reading randomness for a word's end: %w", err)
	}
	return w.e.Finish(dst, binary.BigEndian.Uint64(w.pad[:])), nil
}

// A chunk ends a few symbols after its last byte, and the beginning of the word
// stands before the first chunk.
func (w *streamWriter) takes(n int) int { return n*w.long/w.short + n/32 + 2*w.long }
func (w *streamWriter) holds(n int) int { return (n - 2*w.long) / (w.long + 1) * w.short }

// streamReader reads one endless word.
type streamReader struct{ d *lang.Decoder }

func (r *streamReader) begin(dst []byte)                                { r.d.Begin(dst) }
func (r *streamReader) write(text []byte) (n int, done bool, err error) { return r.d.Write(text) }
func (r *streamReader) end()                                            {}
func (r *streamReader) finish(text []byte) (int, bool) {
	n, done, err := r.d.Finish(text)
	return n, done || err != nil // the stream is whole, whatever comes
}
func (r *streamReader) least() int { return 1 }

// cellWriter writes words of one length. A message starts with a new word, and
// random bits fill its last word.
type cellWriter struct {
	word wordCoder
	rand io.Reader
	x    []byte
}

func (w *cellWriter) append(dst, head, body []byte) ([]byte, error) {
	n := 0
	for _, c := range [2][]byte{head, body} {
		for len(c) > 0 {
			k := copy(w.x[n:], c)
			n, c = n+k, c[k:]
			if n == len(w.x) {
				var err error
				if dst, err = w.emit(dst); err != nil {
					return nil, err
				}
				n = 0
			}
		}
	}
	if n == 0 {
		return dst, nil
	}
	if _, err := io.ReadFull(w.rand, w.x[n:]); err != nil {
		return nil, fault.New(fault.Local, "reading randomness for a word's padding: %w", err)
	}
	return w.emit(dst)
}

// emit appends word number x.
func (w *cellWriter) emit(dst []byte) ([]byte, error) {
	at := len(dst)
	dst = slices.Grow(dst, w.word.Len())[:at+w.word.Len()]
	return dst, w.word.Unrank(dst[at:], w.x)
}

// finish adds nothing: every message ends with a whole word.
func (w *cellWriter) finish(dst []byte) ([]byte, error) { return dst, nil }

func (w *cellWriter) takes(n int) int { return (n + len(w.x) - 1) / len(w.x) * w.word.Len() }
func (w *cellWriter) holds(n int) int { return n / w.word.Len() * len(w.x) }

// cellReader reads words of one length.
type cellReader struct {
	word wordCoder
	x    []byte
	rest []byte // the part of x that was not returned yet
	dst  []byte
}

func (r *cellReader) begin(dst []byte) { r.dst = dst }

func (r *cellReader) write(text []byte) (n int, done bool, err error) {
	for {
		k := copy(r.dst, r.rest)
		r.dst, r.rest = r.dst[k:], r.rest[k:]
		if len(r.dst) == 0 {
			return n, true, nil
		}
		l := r.word.Len()
		if len(text)-n < l {
			return n, false, nil
		}
		if err := r.word.Rank(r.x, text[n:n+l]); err != nil {
			return n, false, err
		}
		n += l
		r.rest = r.x
	}
}

func (r *cellReader) end()                      { r.rest = nil }
func (r *cellReader) finish([]byte) (int, bool) { return 0, true }
func (r *cellReader) least() int                { return r.word.Len() }
