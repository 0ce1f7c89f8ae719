package cell

import (
	"encoding/binary"

	"github.com/chivenet/chive/internal/bin"
)

// Sendme is the body of a SENDME message. Version 0 carries nothing; version 1
// carries the tag of the cell that it acknowledges: 20 bytes with tor1, 16 with
// CGO.
type Sendme struct {
	Version uint8
	Tag     []byte
}

// Append writes the body: empty for version 0, as C tor does for streams.
func (m *Sendme) Append(dst []byte) []byte {
	if m.Version == 0 {
		return dst
	}
	dst = append(dst, m.Version)
	return appendVec16(dst, "SENDME", m.Tag)
}

// ParseSendme reads the body. An unknown version is refused, and so is a tag
// that is neither 16 nor 20 bytes long.
func ParseSendme(b []byte) (Sendme, error) {
	if len(b) == 0 {
		return Sendme{}, nil
	}
	r := bin.NewReader("SENDME", b)
	m := Sendme{Version: r.U8()}
	switch m.Version {
	case 0:
	case 1:
		if m.Tag = r.Vec16(); len(m.Tag) != 20 && len(m.Tag) != 16 {
			r.Fail("tag of %d bytes", len(m.Tag))
		}
	default:
		r.Fail("unknown version %d", m.Version)
	}
	if r.Err() != nil {
		return Sendme{}, r.Err()
	}
	return m, nil
}

// Xoff is the body of an XOFF message (proposal 324): stop sending on the
// stream. Only version 0 exists.
type Xoff struct{}

// Append writes the body.
func (m *Xoff) Append(dst []byte) []byte { return append(dst, 0) }

// ParseXoff reads the body; an unknown version is refused.
func ParseXoff(b []byte) (Xoff, error) {
	r := bin.NewReader("XOFF", b)
	if v := r.U8(); v != 0 {
		r.Fail("unknown version %d", v)
	}
	return Xoff{}, r.Err()
}

// Xon is the body of an XON message: resume sending on the stream.
type Xon struct {
	KBps uint32 // kilobytes (of 1000 bytes) a second at which the sender drains; 0 is no limit
}

// Append writes the body.
func (m *Xon) Append(dst []byte) []byte {
	return binary.BigEndian.AppendUint32(append(dst, 0), m.KBps)
}

// ParseXon reads the body; an unknown version is refused.
func ParseXon(b []byte) (Xon, error) {
	r := bin.NewReader("XON", b)
	if v := r.U8(); v != 0 {
		r.Fail("unknown version %d", v)
	}
	m := Xon{r.U32()}
	return m, r.Err()
}
