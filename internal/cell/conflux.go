package cell

import (
	"encoding/binary"

	"github.com/chivenet/chive/internal/bin"
)

// ConfluxUX is the property that a client asks of the exit's leg choice
// (proposal 329).
type ConfluxUX uint8

// Desired properties.
const (
	ConfluxNoOpinion        ConfluxUX = 0
	ConfluxMinLatency       ConfluxUX = 1
	ConfluxLowMemLatency    ConfluxUX = 2
	ConfluxHighThroughput   ConfluxUX = 3
	ConfluxLowMemThroughput ConfluxUX = 4
)

// ConfluxLink is the body of CONFLUX_LINK and CONFLUX_LINKED, version 1. The
// body of CONFLUX_LINKED_ACK is empty.
type ConfluxLink struct {
	Nonce    [32]byte // names the set of legs; secret
	LastSent uint64   // sequence number of the last cell sent on the set
	LastRecv uint64   // sequence number of the last cell received on the set
	UX       ConfluxUX
}

// Append writes the body.
func (m *ConfluxLink) Append(dst []byte) []byte {
	dst = append(dst, 1)
	dst = append(dst, m.Nonce[:]...)
	dst = binary.BigEndian.AppendUint64(dst, m.LastSent)
	dst = binary.BigEndian.AppendUint64(dst, m.LastRecv)
	return append(dst, byte(m.UX))
}

// ParseConfluxLink reads the body; an unknown version is refused.
func ParseConfluxLink(b []byte) (ConfluxLink, error) {
	r := bin.NewReader("CONFLUX_LINK", b)
	if v := r.U8(); v != 1 {
		r.Fail("unknown version %d", v)
	}
	var m ConfluxLink
	r.Copy(m.Nonce[:])
	m.LastSent = r.U64()
	m.LastRecv = r.U64()
	m.UX = ConfluxUX(r.U8())
	if r.Err() != nil {
		return ConfluxLink{}, r.Err()
	}
	return m, nil
}

// ConfluxSwitch is the body of a CONFLUX_SWITCH message: the messages that
// follow come on this leg.
type ConfluxSwitch struct {
	Seq uint32 // how many sequence numbers this leg lags behind the set
}

// Append writes the body.
func (m *ConfluxSwitch) Append(dst []byte) []byte { return binary.BigEndian.AppendUint32(dst, m.Seq) }

// ParseConfluxSwitch reads the body.
func ParseConfluxSwitch(b []byte) (ConfluxSwitch, error) {
	r := bin.NewReader("CONFLUX_SWITCH", b)
	m := ConfluxSwitch{r.U32()}
	return m, r.Err()
}
