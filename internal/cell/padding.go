package cell

import (
	"encoding/binary"

	"github.com/chivenet/chive/internal/bin"
)

// PaddingCommand starts or stops padding.
type PaddingCommand uint8

// Padding commands, of link cells and of circuit padding machines alike.
const (
	PaddingStop  PaddingCommand = 1
	PaddingStart PaddingCommand = 2
)

// PaddingNegotiate is the body of a PADDING_NEGOTIATE link cell (padding-spec,
// "Connection-level padding").
type PaddingNegotiate struct {
	Command  PaddingCommand
	LowMsec  uint16 // least milliseconds between padding cells; 0 leaves it to the relay
	HighMsec uint16 // most milliseconds
}

// Append writes the body.
func (m *PaddingNegotiate) Append(dst []byte) []byte {
	dst = append(dst, 0, byte(m.Command))
	dst = binary.BigEndian.AppendUint16(dst, m.LowMsec)
	return binary.BigEndian.AppendUint16(dst, m.HighMsec)
}

// ParsePaddingNegotiate reads the body; an unknown version or command is
// refused.
func ParsePaddingNegotiate(b []byte) (PaddingNegotiate, error) {
	r := bin.NewReader("PADDING_NEGOTIATE", b)
	var m PaddingNegotiate
	m.Command = readPaddingCommand(&r)
	m.LowMsec, m.HighMsec = r.U16(), r.U16()
	if r.Err() != nil {
		return PaddingNegotiate{}, r.Err()
	}
	return m, nil
}

func readPaddingCommand(r *bin.Reader) PaddingCommand {
	if v := r.U8(); v != 0 {
		r.Fail("unknown version %d", v)
	}
	c := PaddingCommand(r.U8())
	if c != PaddingStop && c != PaddingStart {
		r.Fail("unknown command %d", c)
	}
	return c
}

// CircPaddingNegotiate is the body of a PADDING_NEGOTIATE relay message: it
// starts or stops a padding machine (padding-spec, "Circuit-level padding").
type CircPaddingNegotiate struct {
	Command PaddingCommand
	Machine uint8  // machine type
	Counter uint32 // tells apart the machines of one type on one circuit
}

// Append writes the body.
func (m *CircPaddingNegotiate) Append(dst []byte) []byte {
	dst = append(dst, 0, byte(m.Command), m.Machine, 0)
	return binary.BigEndian.AppendUint32(dst, m.Counter)
}

// ParseCircPaddingNegotiate reads the body.
func ParseCircPaddingNegotiate(b []byte) (CircPaddingNegotiate, error) {
	r := bin.NewReader("PADDING_NEGOTIATE", b)
	var m CircPaddingNegotiate
	m.Command = readPaddingCommand(&r)
	m.Machine = r.U8()
	r.U8() // unused
	m.Counter = r.U32()
	if r.Err() != nil {
		return CircPaddingNegotiate{}, r.Err()
	}
	return m, nil
}

// CircPaddingNegotiated is the body of a PADDING_NEGOTIATED relay message.
type CircPaddingNegotiated struct {
	Command PaddingCommand
	OK      bool // whether the relay does what was asked
	Machine uint8
	Counter uint32
}

// Append writes the body.
func (m *CircPaddingNegotiated) Append(dst []byte) []byte {
	response := byte(2)
	if m.OK {
		response = 1
	}
	dst = append(dst, 0, byte(m.Command), response, m.Machine)
	return binary.BigEndian.AppendUint32(dst, m.Counter)
}

// ParseCircPaddingNegotiated reads the body.
func ParseCircPaddingNegotiated(b []byte) (CircPaddingNegotiated, error) {
	r := bin.NewReader("PADDING_NEGOTIATED", b)
	var m CircPaddingNegotiated
	m.Command = readPaddingCommand(&r)
	response := r.U8()
	if response != 1 && response != 2 {
		r.Fail("unknown response %d", response)
	}
	m.OK = response == 1
	m.Machine = r.U8()
	m.Counter = r.U32()
	if r.Err() != nil {
		return CircPaddingNegotiated{}, r.Err()
	}
	return m, nil
}
