// Package bin reads binary messages with checks of bounds and one sticky error
// per message. It has no type for writing: use append and the append functions
// of encoding/binary. All numbers are big-endian.
package bin

import (
	"encoding/binary"

	"github.com/chivenet/chive/internal/fault"
)

// Reader reads fields from the front of a byte slice. After the first read past
// the end every read returns zero values, and Err returns the error. Slices that
// it returns alias the message.
type Reader struct {
	what string
	b    []byte
	off  int
	err  error
}

// NewReader returns a reader over b; what is the name of the message in errors.
func NewReader(what string, b []byte) Reader { return Reader{what: what, b: b} }

// Err returns the first error, or nil.
func (r *Reader) Err() error { return r.err }

// Len returns the number of unread bytes; zero after an error.
func (r *Reader) Len() int {
	if r.err != nil {
		return 0
	}
	return len(r.b) - r.off
}

// Offset returns the number of bytes read so far.
func (r *Reader) Offset() int { return r.off }

// Fail records an error of kind Protocol unless the reader has an error already.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fault.New(fault.Protocol, "%s: offset %d: %w", r.what, r.off, fault.New(fault.Protocol, format, args...))
	}
}

// Bytes returns the next n bytes without copying, or nil if fewer are left.
func (r *Reader) Bytes(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || len(r.b)-r.off < n {
		r.Fail("%d bytes wanted, %d left", n, len(r.b)-r.off)
		return nil
	}
	s := r.b[r.off : r.off+n : r.off+n]
	r.off += n
	return s
}

// Copy fills dst from the message; if too few bytes are left, dst does not
// change.
func (r *Reader) Copy(dst []byte) { copy(dst, r.Bytes(len(dst))) }

// Rest returns all that is left, without copying.
func (r *Reader) Rest() []byte { return r.Bytes(r.Len()) }

// U8 reads one byte.
func (r *Reader) U8() uint8 {
	if b := r.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// U16 reads a big-endian 16-bit number.
func (r *Reader) U16() uint16 {
	if b := r.Bytes(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

// U32 reads a big-endian 32-bit number.
func (r *Reader) U32() uint32 {
	if b := r.Bytes(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// U64 reads a big-endian 64-bit number.
func (r *Reader) U64() uint64 {
	if b := r.Bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Vec8 reads a one-byte length and that many bytes.
func (r *Reader) Vec8() []byte { return r.Bytes(int(r.U8())) }

// Vec16 reads a two-byte length and that many bytes.
func (r *Reader) Vec16() []byte { return r.Bytes(int(r.U16())) }

// End returns the first error, or an error if bytes are left over.
func (r *Reader) End() error {
	if r.err == nil && r.off != len(r.b) {
		r.Fail("%d bytes left over", len(r.b)-r.off)
	}
	return r.err
}
