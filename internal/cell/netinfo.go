package cell

import (
	"encoding/binary"
	"net/netip"

	"github.com/chivenet/chive/internal/bin"
)

// Netinfo is the body of a NETINFO cell (tor-spec, "NETINFO cells").
type Netinfo struct {
	Time  uint32       // the sender's clock, seconds since 1970; 0 from a client that hides it
	Other netip.Addr   // the receiver's address as the sender sees it; zero when not told
	Mine  []netip.Addr // the sender's own addresses; empty from a client
}

// Append writes the body.
func (m *Netinfo) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, m.Time)
	dst = appendAddr(dst, m.Other)
	if len(m.Mine) > 255 {
		panic("cell: NETINFO: more than 255 addresses")
	}
	dst = append(dst, byte(len(m.Mine)))
	for _, a := range m.Mine {
		dst = appendAddr(dst, a)
	}
	return dst
}

// appendAddr writes type, length and address. The zero Addr becomes 0.0.0.0: the
// field is not optional.
func appendAddr(dst []byte, a netip.Addr) []byte {
	a = a.Unmap()
	if a.Is6() {
		b := a.As16()
		return append(append(dst, 6, 16), b[:]...)
	}
	var b [4]byte
	if a.Is4() {
		b = a.As4()
	}
	return append(append(dst, 4, 4), b[:]...)
}

// readAddr returns the zero Addr for an address of unknown type, of a length
// that does not fit its type, or that is unspecified.
func readAddr(r *bin.Reader) netip.Addr {
	typ := r.U8()
	b := r.Vec8()
	if typ == 4 && len(b) == 4 || typ == 6 && len(b) == 16 {
		if a, _ := netip.AddrFromSlice(b); !a.Unmap().IsUnspecified() {
			return a.Unmap()
		}
	}
	return netip.Addr{}
}

// ParseNetinfo reads the body. Addresses of unknown type are passed over.
func ParseNetinfo(b []byte) (Netinfo, error) {
	r := bin.NewReader("NETINFO", b)
	m := Netinfo{Time: r.U32(), Other: readAddr(&r)}
	for range r.U8() {
		if a := readAddr(&r); a.IsValid() {
			m.Mine = append(m.Mine, a)
		}
	}
	if r.Err() != nil {
		return Netinfo{}, r.Err()
	}
	return m, nil
}
