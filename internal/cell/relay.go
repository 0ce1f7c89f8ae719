package cell

import (
	"encoding/binary"
	"strconv"

	"github.com/chivenet/chive/internal/fault"
)

// RelayFormat is the layout of a relay message in the payload of a RELAY cell.
type RelayFormat uint8

// The layouts. RelayV0 belongs to tor1 relay crypto:
//
//	0 command, 1; 1 recognized, 2; 3 stream ID, 2; 5 digest, 4; 9 length, 2; 11 body
//
// RelayV1 (proposals 340 and 359) belongs to CGO:
//
//	0 tag, 16; 16 command, 1; 17 length, 2; 19 body, or 19 stream ID, 2; 21 body
const (
	RelayV0 RelayFormat = 0
	RelayV1 RelayFormat = 1
)

// Offsets of fields within the payload.
const (
	V0Recognized = 1  // two zero bytes in a cell that arrived
	V0Digest     = 5  // four bytes of the running digest
	V0Header     = 11 // where a RelayV0 body begins
	V1TagLen     = 16 // the CGO tag in front of a RelayV1 message

	v0Stream, v0Length = 3, 9
	v1Cmd, v1Length    = 16, 17
	v1Stream           = 19
	v1Header           = 19
	v1HeaderStream     = 21
)

// String returns "v0" or "v1".
func (f RelayFormat) String() string { return "v" + strconv.Itoa(int(f)) }

// MaxData returns the greatest length of a body, in bytes: 498 in RelayV0, 488
// (with a stream ID) or 490 in RelayV1.
func (f RelayFormat) MaxData(withStream bool) int {
	switch {
	case f == RelayV0:
		return PayloadLen - V0Header
	case withStream:
		return PayloadLen - v1HeaderStream
	}
	return PayloadLen - v1Header
}

// DataOffset returns where in the payload the body of such a message begins.
func (f RelayFormat) DataOffset(cmd RelayCommand) int {
	switch {
	case f == RelayV0:
		return V0Header
	case cmd.WantsStream():
		return v1HeaderStream
	}
	return v1Header
}

// PutHeader writes the header of a message whose body of n bytes is, or will
// be, at DataOffset. Recognized and digest, or the tag, become zero. The caller
// fills the bytes behind the body: the specification asks for four zero bytes
// and then random ones. PutHeader refuses a body over MaxData, and in RelayV1 a
// missing stream ID or one that the command does not take. These are errors and
// no panics, because a circuit's peers can choose what it sends.
func (f RelayFormat) PutHeader(p *[PayloadLen]byte, cmd RelayCommand, stream uint16, n int) error {
	withStream := cmd.WantsStream()
	if uint(n) > uint(f.MaxData(withStream)) {
		return fault.New(fault.Local, "send %v: %d bytes, %d fit", cmd, n, f.MaxData(withStream))
	}
	if f == RelayV0 {
		p[0] = byte(cmd)
		p[1], p[2] = 0, 0
		binary.BigEndian.PutUint16(p[v0Stream:], stream)
		binary.BigEndian.PutUint32(p[V0Digest:], 0)
		binary.BigEndian.PutUint16(p[v0Length:], uint16(n))
		return nil
	}
	if withStream != (stream != 0) {
		return fault.New(fault.Local, "send %v: stream ID %d, which relay message %v does not allow", cmd, stream, f)
	}
	clear(p[:V1TagLen])
	p[v1Cmd] = byte(cmd)
	binary.BigEndian.PutUint16(p[v1Length:], uint16(n))
	if withStream {
		binary.BigEndian.PutUint16(p[v1Stream:], stream)
	}
	return nil
}

// RelayMsg is a relay message, decrypted and recognised.
type RelayMsg struct {
	Cmd    RelayCommand
	Stream uint16 // 0 for a message of the circuit
	Data   []byte // the body; aliases the payload
}

// Parse reads the message in a decrypted, recognised payload. A length over
// what the cell holds, and a missing stream ID, are refused. RelayV1 refuses an
// unknown command too, because nobody can tell whether a stream ID follows it;
// RelayV0 returns it.
func (f RelayFormat) Parse(p *[PayloadLen]byte) (RelayMsg, error) {
	if f == RelayV0 {
		n := int(binary.BigEndian.Uint16(p[v0Length:]))
		m := RelayMsg{Cmd: RelayCommand(p[0]), Stream: binary.BigEndian.Uint16(p[v0Stream:])}
		if n > PayloadLen-V0Header {
			return RelayMsg{}, errLength(f, m.Cmd, n)
		}
		if m.Stream == 0 && m.Cmd.WantsStream() {
			return RelayMsg{}, errStream(f, m.Cmd)
		}
		m.Data = p[V0Header : V0Header+n : V0Header+n]
		return m, nil
	}
	m := RelayMsg{Cmd: RelayCommand(p[v1Cmd])}
	if !m.Cmd.Known() {
		return RelayMsg{}, fault.New(fault.Protocol, "relay message %v: unknown %v", f, m.Cmd)
	}
	off := v1Header
	if m.Cmd.WantsStream() {
		off = v1HeaderStream
		if m.Stream = binary.BigEndian.Uint16(p[v1Stream:]); m.Stream == 0 {
			return RelayMsg{}, errStream(f, m.Cmd)
		}
	}
	n := int(binary.BigEndian.Uint16(p[v1Length:]))
	if n > PayloadLen-off {
		return RelayMsg{}, errLength(f, m.Cmd, n)
	}
	m.Data = p[off : off+n : off+n]
	return m, nil
}

func errLength(f RelayFormat, cmd RelayCommand, n int) error {
	return fault.New(fault.Protocol, "relay message %v: %v: length %d is over %d", f, cmd, n, f.MaxData(cmd.WantsStream()))
}

func errStream(f RelayFormat, cmd RelayCommand) error {
	return fault.New(fault.Protocol, "relay message %v: %v without a stream ID", f, cmd)
}
