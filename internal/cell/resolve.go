package cell

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/bin"
	"github.com/chivenet/chive/internal/fault"
)

// Resolve is the body of a RESOLVE message: a host name to look up, or the
// ReverseName of an address.
type Resolve struct{ Name string }

// NewResolve checks the name, which may come from a user.
func NewResolve(name string) (Resolve, error) {
	if err := checkHost(name); err != nil {
		return Resolve{}, fault.New(fault.Config, "RESOLVE: %w", err)
	}
	return Resolve{name}, nil
}

// ReverseName returns the in-addr.arpa or ip6.arpa name of an address.
func ReverseName(a netip.Addr) string {
	var s strings.Builder
	a = a.Unmap()
	b := a.AsSlice()
	for i := len(b) - 1; i >= 0; i-- {
		if a.Is4() {
			s.WriteString(strconv.Itoa(int(b[i])))
			s.WriteByte('.')
			continue
		}
		const hexDigits = "0123456789abcdef"
		s.Write([]byte{hexDigits[b[i]&15], '.', hexDigits[b[i]>>4], '.'})
	}
	if a.Is4() {
		return s.String() + "in-addr.arpa"
	}
	return s.String() + "ip6.arpa"
}

// ParseReverseName reads a name under in-addr.arpa (RFC 1035, section 3.5) or
// ip6.arpa (RFC 3596, section 2.5).
func ParseReverseName(name string) (netip.Addr, bool) {
	name = strings.ToLower(name)
	if v4, ok := strings.CutSuffix(name, ".in-addr.arpa"); ok {
		labels := strings.Split(v4, ".")
		if len(labels) != 4 {
			return netip.Addr{}, false
		}
		var ip [4]byte
		for i, l := range labels {
			n, err := strconv.ParseUint(l, 10, 8)
			if err != nil {
				return netip.Addr{}, false
			}
			ip[3-i] = byte(n)
		}
		return netip.AddrFrom4(ip), true
	}
	v6, ok := strings.CutSuffix(name, ".ip6.arpa")
	labels := strings.Split(v6, ".")
	if !ok || len(labels) != 32 {
		return netip.Addr{}, false
	}
	var digits [32]byte
	for i, l := range labels {
		if len(l) != 1 {
			return netip.Addr{}, false
		}
		digits[31-i] = l[0]
	}
	var ip [16]byte
	if _, err := hex.Decode(ip[:], digits[:]); err != nil {
		return netip.Addr{}, false
	}
	return netip.AddrFrom16(ip), true
}

// Append writes the body. The name must be one that NewResolve accepts.
func (m *Resolve) Append(dst []byte) []byte { return append(append(dst, m.Name...), 0) }

// ParseResolve reads the body.
func ParseResolve(b []byte) (Resolve, error) {
	s, _, ok := bytes.Cut(b, []byte{0})
	if !ok {
		return Resolve{}, fault.New(fault.Protocol, "RESOLVE: name has no end")
	}
	m := Resolve{string(s)}
	if err := checkHost(m.Name); err != nil {
		return Resolve{}, fault.New(fault.Protocol, "RESOLVE: %w", err)
	}
	return m, nil
}

// AnswerType is the type of one answer in a RESOLVED message.
type AnswerType uint8

// Answer types.
const (
	AnswerHostname       AnswerType = 0x00
	AnswerIPv4           AnswerType = 0x04
	AnswerIPv6           AnswerType = 0x06
	AnswerErrorTransient AnswerType = 0xf0 // trying again may help
	AnswerError          AnswerType = 0xf1 // trying again will not help
)

// Answer is one answer of a RESOLVED message.
type Answer struct {
	Type AnswerType
	Addr netip.Addr // of AnswerIPv4 and AnswerIPv6
	Text []byte     // the host name; of other types, what they carry
	TTL  uint32     // seconds
}

// Resolved is the body of a RESOLVED message.
type Resolved []Answer

// Append writes the body. A text that its field cannot hold is refused: it may be
// a name that a stranger's name server gave.
func (m Resolved) Append(dst []byte) ([]byte, error) {
	for i := range m {
		a := &m[i]
		if len(a.Text) > 0xff {
			return nil, fault.New(fault.Local, "RESOLVED: a text of %d bytes, 255 fit", len(a.Text))
		}
		dst = append(dst, byte(a.Type))
		switch a.Type {
		case AnswerIPv4, AnswerIPv6:
			dst = appendVec8(dst, "RESOLVED", a.Addr.AsSlice())
		default:
			dst = appendVec8(dst, "RESOLVED", a.Text)
		}
		dst = binary.BigEndian.AppendUint32(dst, a.TTL)
	}
	return dst, nil
}

// ParseResolved reads answers to the end of the body. Unknown types are
// returned; a known type of the wrong length is refused.
func ParseResolved(b []byte) (Resolved, error) {
	r := bin.NewReader("RESOLVED", b)
	var m Resolved
	for r.Len() > 0 {
		a := Answer{Type: AnswerType(r.U8())}
		v := r.Vec8()
		a.TTL = r.U32()
		switch a.Type {
		case AnswerIPv4, AnswerIPv6:
			if want := map[AnswerType]int{AnswerIPv4: 4, AnswerIPv6: 16}[a.Type]; len(v) != want {
				r.Fail("address of type %d has %d bytes", a.Type, len(v))
			}
			a.Addr, _ = netip.AddrFromSlice(v)
		default:
			a.Text = v
		}
		if r.Err() != nil {
			return nil, r.Err()
		}
		m = append(m, a)
	}
	return m, r.Err()
}
