package cell

import (
	"encoding/binary"
	"strconv"

	"github.com/chivenet/chive/internal/bin"
)

// HandshakeType is the number of a circuit handshake in CREATE2 and EXTEND2
// (HTYPE). Package handshake has the table of those that exist here.
type HandshakeType uint16

// Handshake types of the specification.
const (
	HandshakeTAP    HandshakeType = 0 // obsolete; refused
	HandshakeFast   HandshakeType = 1 // stands for CREATE_FAST; never on the wire
	HandshakeNtor   HandshakeType = 2
	HandshakeNtorV3 HandshakeType = 3
)

// String returns the number in words.
func (t HandshakeType) String() string { return "handshake type " + strconv.Itoa(int(t)) }

// Lengths of the CREATE_FAST handshake, in bytes.
const (
	CreateFastLen  = 20 // X
	CreatedFastLen = 40 // Y and the derived key digest KH
)

// CreateFast is the body of a CREATE_FAST cell: the client's key material.
type CreateFast [CreateFastLen]byte

// Append writes the body.
func (m *CreateFast) Append(dst []byte) []byte { return append(dst, m[:]...) }

// ParseCreateFast reads the body.
func ParseCreateFast(b []byte) (m CreateFast, err error) {
	r := bin.NewReader("CREATE_FAST", b)
	r.Copy(m[:])
	return m, r.Err()
}

// CreatedFast is the body of a CREATED_FAST cell.
type CreatedFast [CreatedFastLen]byte

// ParseCreatedFast reads the body.
func ParseCreatedFast(b []byte) (m CreatedFast, err error) {
	r := bin.NewReader("CREATED_FAST", b)
	r.Copy(m[:])
	return m, r.Err()
}

// Create2 is the body of a CREATE2 cell.
type Create2 struct {
	Type HandshakeType
	Data []byte // the client's part of the handshake (the onion skin)
}

// Append writes the body.
func (m *Create2) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(m.Type))
	return appendVec16(dst, "CREATE2", m.Data)
}

// ParseCreate2 reads the body.
func ParseCreate2(b []byte) (Create2, error) {
	r := bin.NewReader("CREATE2", b)
	m := readCreate2(&r)
	return m, r.Err()
}

func readCreate2(r *bin.Reader) Create2 {
	return Create2{Type: HandshakeType(r.U16()), Data: r.Vec16()}
}

// Created2 is the body of a CREATED2 cell: the relay's part of the handshake.
type Created2 struct{ Data []byte }

// Append writes the body.
func (m *Created2) Append(dst []byte) []byte { return appendVec16(dst, "CREATED2", m.Data) }

// ParseCreated2 reads the body.
func ParseCreated2(b []byte) (Created2, error) {
	r := bin.NewReader("CREATED2", b)
	m := Created2{Data: r.Vec16()}
	return m, r.Err()
}

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
