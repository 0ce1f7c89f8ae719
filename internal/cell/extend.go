package cell

import (
	"encoding/binary"

	"github.com/chivenet/chive/internal/bin"
)

// Extend2 is the body of an EXTEND2 message.
type Extend2 struct {
	Specs []byte // link specifiers as linkspec.Append writes them: the count, then each
	Type  HandshakeType
	Data  []byte // the client's part of the handshake
}

// Append writes the body.
func (m *Extend2) Append(dst []byte) []byte {
	dst = append(dst, m.Specs...)
	dst = binary.BigEndian.AppendUint16(dst, uint16(m.Type))
	return appendVec16(dst, "EXTEND2", m.Data)
}

// ParseExtend2 reads the body. Specs is delimited, not interpreted: linkspec.Read
// does that.
func ParseExtend2(b []byte) (Extend2, error) {
	r := bin.NewReader("EXTEND2", b)
	m := readExtend2(&r, b)
	if r.Err() != nil {
		return Extend2{}, r.Err()
	}
	return m, nil
}

// readExtend2 reads an EXTEND2 that begins where r is in b.
func readExtend2(r *bin.Reader, b []byte) Extend2 {
	return Extend2{Specs: readSpecs(r, b), Type: HandshakeType(r.U16()), Data: r.Vec16()}
}

// readSpecs delimits a count and that many link specifiers in b, which r reads.
func readSpecs(r *bin.Reader, b []byte) []byte {
	from := r.Offset()
	for range r.U8() {
		r.U8()
		r.Vec8()
	}
	return b[from:r.Offset():r.Offset()]
}

// Extended2 is the body of an EXTENDED2 message: the next relay's CREATED2.
type Extended2 struct{ Data []byte }

// Append writes the body.
func (m *Extended2) Append(dst []byte) []byte { return appendVec16(dst, "EXTENDED2", m.Data) }

// ParseExtended2 reads the body.
func ParseExtended2(b []byte) (Extended2, error) {
	r := bin.NewReader("EXTENDED2", b)
	m := Extended2{Data: r.Vec16()}
	return m, r.Err()
}

// Truncated is the body of a TRUNCATED message.
type Truncated struct{ Reason DestroyReason }

// Append writes the body.
func (m *Truncated) Append(dst []byte) []byte { return append(dst, byte(m.Reason)) }

// ParseTruncated reads the body.
func ParseTruncated(b []byte) (Truncated, error) {
	r := bin.NewReader("TRUNCATED", b)
	m := Truncated{DestroyReason(r.U8())}
	return m, r.Err()
}
