package fte

import (
	"encoding/binary"
	"io"

	"github.com/chivenet/chive/internal/fault"
)

// MaxClassicCell is the longest plaintext of one classic cell, in bytes: fteproxy 0.3
// sends up to this much, and we accept no more.
const MaxClassicCell = 1 << 18

// classicHeader is the length of H, the encrypted random[8] || u64be m where m is the
// number of the record's bytes inside the word.
const classicHeader = 16

// wordCoder maps numbers to the words of one length in a language, and back.
// *lang.Slice is one.
type wordCoder interface {
	Len() int                    // bytes of a word
	Bytes() int                  // bytes of a number; Unrank reads and Rank writes exactly this many
	Unrank(dst, x []byte) error  // dst[:Len()] = word number x
	Rank(dst, word []byte) error // dst[:Bytes()] = the number of the word
}

// classicSealer turns plaintexts into classic cells:
//
//	word(H || C[:B-16] || random) || C[B-16:]
type classicSealer struct {
	ae   *classicAE
	word wordCoder
	rand io.Reader
	max  int // longest plaintext of one cell
	x    []byte
}

func newClassicSealer(key *Key, word wordCoder, rand io.Reader, max int) (*classicSealer, error) {
	if word.Bytes() <= classicHeader {
		return nil, fault.New(fault.Config, "a word of the format holds %d bytes; the classic protocol needs more than %d", word.Bytes(), classicHeader)
	}
	return &classicSealer{ae: newClassicAE(key), word: word, rand: rand, max: max, x: make([]byte, word.Bytes())}, nil
}

// room returns the space that seal needs before and after a plaintext, and the length
// of the longest plaintext.
func (s *classicSealer) room() (head, tail, max int) {
	// A word is longer than the bytes that it holds, so it may begin before C does.
	// If the record is short, the word may also end after C.
	return classicHead + s.word.Len(), classicTag + s.word.Len(), s.max
}

// seal builds the cell around buf[off:off+n] in place and returns it.
func (s *classicSealer) seal(buf []byte, off, n int) ([]byte, error) {
	start := off - classicHead
	end := off + n + classicTag
	c := buf[start:end]
	if err := s.ae.seal(c, s.rand); err != nil {
		return nil, err
	}
	inside := len(s.x) - classicHeader
	m := min(len(c), inside)
	h := s.x[:classicHeader]
	if _, err := io.ReadFull(s.rand, h[:8]); err != nil {
		return nil, fault.New(fault.Local, "reading randomness for a cell's salt: %w", err)
	}
	binary.BigEndian.PutUint64(h[8:], uint64(m))
	s.ae.block.Encrypt(h, h)
	copy(s.x[classicHeader:], c[:m])
	if _, err := io.ReadFull(s.rand, s.x[classicHeader+m:]); err != nil {
		return nil, fault.New(fault.Local, "reading randomness for a cell's padding: %w", err)
	}
	at := start + m - s.word.Len() // the word ends where the raw bytes begin
	if err := s.word.Unrank(buf[at:start+m], s.x); err != nil {
		return nil, err
	}
	return buf[at:end], nil
}

// finish returns nothing: the classic protocol ends with the connection.
func (s *classicSealer) finish([]byte) ([]byte, error) { return nil, nil }

// release does nothing: cells are built in place.
func (s *classicSealer) release() {}

// classicOpener finds and opens classic cells in received bytes.
type classicOpener struct {
	ae   *classicAE
	word wordCoder
	x    []byte
	w1   [classicHead]byte

	// The cell that is being received, after its word was read.
	begun bool
	m     int // bytes of C inside the word
	size  int // bytes of the whole cell; 0 while W1 is incomplete
}

func newClassicOpener(ae *classicAE, word wordCoder) (*classicOpener, error) {
	if word.Bytes() <= classicHeader {
		return nil, fault.New(fault.Config, "a word of the format holds %d bytes; the classic protocol needs more than %d", word.Bytes(), classicHeader)
	}
	return &classicOpener{ae: ae, word: word, x: make([]byte, word.Bytes())}, nil
}

// open opens the cell at the start of buf. It returns the plaintext (which aliases
// buf) and the number of bytes that it used. If the cell is incomplete, need is the
// number of bytes that buf must hold before another call can do more.
func (o *classicOpener) open(buf []byte) (plain []byte, used, need int, err error) {
	l := o.word.Len()
	if !o.begun {
		if len(buf) < l {
			return nil, 0, l, nil
		}
		if err := o.word.Rank(o.x, buf[:l]); err != nil {
			return nil, 0, 0, fault.New(fault.Protocol, "a cell isn't in the format: %w", err)
		}
		h := o.x[:classicHeader]
		o.ae.block.Decrypt(h, h)
		m := binary.BigEndian.Uint64(h[8:])
		if m > uint64(len(o.x)-classicHeader) || m < 1 {
			return nil, 0, 0, fault.New(fault.Protocol, "a cell's header doesn't decrypt")
		}
		o.begun, o.m, o.size = true, int(m), 0
	}
	if o.size == 0 {
		// W1 may continue after the word if the word holds few bytes.
		if behind := classicHead - o.m; behind > 0 && len(buf) < l+behind {
			return nil, 0, l + behind, nil
		}
		k := copy(o.w1[:], o.x[classicHeader:classicHeader+o.m])
		copy(o.w1[k:], buf[l:])
		n, _, err := o.ae.length(o.w1[:])
		if err != nil {
			return nil, 0, 0, err
		}
		if o.m != min(n+classicExpansion, len(o.x)-classicHeader) {
			return nil, 0, 0, fault.New(fault.Protocol, "a cell's header and its record disagree")
		}
		o.size = l + n + classicExpansion - o.m
	}
	if len(buf) < o.size {
		return nil, 0, o.size, nil
	}
	// Copy the bytes from the word over the end of the word, so that they stand
	// directly before the raw bytes.
	copy(buf[l-o.m:l], o.x[classicHeader:classicHeader+o.m])
	plain, err = o.ae.open(buf[l-o.m : o.size])
	if err != nil {
		return nil, 0, 0, err
	}
	o.begun = false
	return plain, o.size, 0, nil
}

// eof accepts the end of a stream only between cells.
func (o *classicOpener) eof(rest int) error {
	if rest > 0 || o.begun {
		return io.ErrUnexpectedEOF
	}
	return io.EOF
}

// rest does nothing: cells are opened in place.
func (o *classicOpener) rest() {}
