package dirserver

import "sync"

// pieceSize is how much of an answer is gathered and compressed at a time. It is
// what an answer holds that nobody reads, beside references to documents.
const pieceSize = 16 << 10

// pieceRoom is the size of a buffer: what compression adds to a piece, and the
// head of an answer, go in too.
const pieceRoom = pieceSize + 2<<10

// maxWrite is how much of one document is written at a time, from where it is
// kept.
const maxWrite = 64 << 10

var pieces = sync.Pool{New: func() any { return new([pieceRoom]byte) }}

// spool makes an answer's bytes as they are sent: from documents, which it
// refers to and does not copy.
type spool struct {
	head  []byte // goes out first, as it is
	parts []*Doc
	off   int     // of the first part
	pack  *packer // nil: the parts go out as they are
	buf   *[pieceRoom]byte
	small int // bytes of a body that was compressed as a whole
	ended bool
}

// newSpool returns the body of an answer and its length; -1 when that is known
// only once all is compressed.
func newSpool(parts []*Doc, enc string) (sp *spool, length int, err error) {
	size := 0
	for _, p := range parts {
		size += len(p.body)
	}
	sp = &spool{parts: parts}
	switch {
	case len(parts) == 1 && parts[0].enc != nil:
		body, err := parts[0].encoded(enc)
		if err != nil {
			return nil, 0, err
		}
		sp.parts = []*Doc{{body: body}}
		return sp, len(body), nil
	case enc == "" || len(parts) == 0:
		return sp, size, nil
	}
	if sp.pack, err = newPacker(enc); err != nil || size > pieceSize {
		return sp, -1, err
	}
	body, err := sp.packed(make([]byte, 0, size/2+64)) // all of it
	if err != nil {
		return nil, 0, err
	}
	sp = &spool{parts: []*Doc{{body: body}}, small: cap(body)}
	return sp, len(body), nil
}

// holds returns the bytes that the spool has for itself: beside a buffer, the
// list of its parts.
func (sp *spool) holds() int {
	n := sp.small + 8*min(len(sp.parts), maxItems)
	if sp.buf != nil {
		n += pieceRoom
	}
	return n
}

// next returns the bytes to be sent next, which are good until the next call;
// none at the end.
func (sp *spool) next() (b []byte, err error) {
	sp.release()
	if sp.pack != nil && !sp.ended {
		sp.buf = pieces.Get().(*[pieceRoom]byte)
		b = append(sp.buf[:0], sp.head...)
		sp.head = nil
		return sp.packed(b)
	}
	if len(sp.parts) == 0 || len(sp.head)+len(sp.parts[0].body)-sp.off > pieceSize {
		if b, sp.head = sp.head, nil; len(b) > 0 {
			return b, nil
		}
		return sp.gather(nil), nil
	}
	sp.buf = pieces.Get().(*[pieceRoom]byte)
	n := copy(sp.buf[:], sp.head)
	sp.head = nil
	return sp.buf[:n+len(sp.gather(sp.buf[n:max(n, pieceSize)]))], nil
}

// release gives back the buffer of what was sent.
func (sp *spool) release() {
	if sp.buf != nil {
		pieces.Put(sp.buf)
		sp.buf = nil
	}
}

// packed appends the next piece, compressed.
func (sp *spool) packed(dst []byte) ([]byte, error) {
	plain := pieces.Get().(*[pieceRoom]byte)
	defer pieces.Put(plain)
	piece := sp.gather(plain[:pieceSize])
	sp.ended = len(sp.parts) == 0
	return sp.pack.append(dst, piece[:min(len(piece), pieceSize)], sp.ended)
}

// gather takes the next bytes of the parts: into buf, or from a part itself
// where buf has no room at all.
func (sp *spool) gather(buf []byte) []byte {
	n := 0
	for len(sp.parts) > 0 {
		rest := sp.parts[0].body[sp.off:]
		if len(buf) == 0 && len(rest) > 0 {
			rest = rest[:min(len(rest), maxWrite)]
			sp.advance(len(rest))
			return rest
		}
		k := copy(buf[n:], rest)
		n += k
		sp.advance(k)
		if n == len(buf) && n > 0 {
			break
		}
	}
	return buf[:n]
}

// advance goes n bytes on in the first part, and to the next one at its end.
func (sp *spool) advance(n int) {
	if sp.off += n; sp.off == len(sp.parts[0].body) {
		sp.parts, sp.off = sp.parts[1:], 0
	}
}
