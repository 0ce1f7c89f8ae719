package cell

import (
	"bytes"
	"encoding/binary"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"github.com/chivenet/chive/internal/bin"
	"github.com/chivenet/chive/internal/fault"
)

// MaxHostLen is the longest host name or address of BEGIN and RESOLVE, in bytes.
const MaxHostLen = 255

// BeginFlags say which address families a BEGIN accepts.
type BeginFlags uint32

// Flags of a BEGIN message.
const (
	BeginIPv6OK        BeginFlags = 1 << 0 // a connection to an IPv6 address is welcome
	BeginIPv4NotOK     BeginFlags = 1 << 1 // a connection to an IPv4 address is not
	BeginIPv6Preferred BeginFlags = 1 << 2 // rather IPv6 when both are possible

	// BeginHalfClose says that the client takes HALF_CLOSE on this stream. It is for
	// peers that advertise the same (docs/spec/half-close.md).
	BeginHalfClose BeginFlags = 1 << 31
)

// Begin is the body of a BEGIN message.
type Begin struct {
	Host  string // host name, or IPv4 or IPv6 address without brackets
	Port  uint16
	Flags BeginFlags
}

// NewBegin checks host and port, which may come from a user: a host that the
// message cannot carry is refused.
func NewBegin(host string, port uint16, flags BeginFlags) (Begin, error) {
	if err := checkHost(host); err != nil {
		return Begin{}, fault.New(fault.Config, "BEGIN: %w", err)
	}
	if port == 0 {
		return Begin{}, fault.New(fault.Config, "BEGIN: port 0")
	}
	return Begin{host, port, flags}, nil
}

// checkHost accepts printable ASCII. A colon is accepted in an IPv6 address
// without zone only.
func checkHost(host string) error {
	if host == "" || len(host) > MaxHostLen {
		return fault.New(fault.Protocol, "host of %d bytes", len(host))
	}
	for i := range len(host) {
		if host[i] <= ' ' || host[i] >= 0x7f {
			return fault.New(fault.Protocol, "byte 0x%02x in host", host[i])
		}
	}
	if strings.Contains(host, ":") || host[0] == '[' {
		a, err := netip.ParseAddr(host)
		if err != nil || a.Zone() != "" {
			return fault.New(fault.Protocol, "host is neither a name nor an address")
		}
	}
	return nil
}

// NewOnionBegin returns a BEGIN for an onion service, which gets no host and none of
// Tor's flags (rend-spec-v3, "Managing streams").
func NewOnionBegin(port uint16) (Begin, error) {
	if port == 0 {
		return Begin{}, fault.New(fault.Config, "BEGIN: port 0")
	}
	return Begin{Port: port}, nil
}

// ParseOnionBegin reads the body of a BEGIN that came to an onion service. Its
// host, if there is one, and Tor's flags mean nothing there.
func ParseOnionBegin(b []byte) (Begin, error) {
	s, rest, ok := bytes.Cut(b, []byte{0})
	if !ok {
		return Begin{}, fault.New(fault.Protocol, "BEGIN: address has no end")
	}
	colon := bytes.LastIndexByte(s, ':')
	if colon < 0 {
		return Begin{}, fault.New(fault.Protocol, "BEGIN: address is not HOST:PORT")
	}
	port, err := beginPort(string(s[colon+1:]))
	if err != nil {
		return Begin{}, err
	}
	return Begin{Port: port, Flags: beginFlags(rest) & BeginHalfClose}, nil
}

// beginFlags reads what follows the address.
func beginFlags(rest []byte) BeginFlags {
	if len(rest) < 4 {
		return 0
	}
	return BeginFlags(binary.BigEndian.Uint32(rest))
}

func beginPort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, fault.New(fault.Protocol, "BEGIN: port is not a number from 1 to 65535")
	}
	return uint16(n), nil
}

// Append writes the body. The host must be one that NewBegin accepts.
func (m *Begin) Append(dst []byte) []byte {
	if strings.Contains(m.Host, ":") {
		dst = append(dst, '[')
		dst = append(dst, m.Host...)
		dst = append(dst, ']')
	} else {
		dst = append(dst, m.Host...)
	}
	dst = append(dst, ':')
	dst = strconv.AppendUint(dst, uint64(m.Port), 10)
	dst = append(dst, 0)
	if m.Flags != 0 {
		dst = binary.BigEndian.AppendUint32(dst, uint32(m.Flags))
	}
	return dst
}

// ParseBegin reads the body.
func ParseBegin(b []byte) (Begin, error) {
	s, rest, ok := bytes.Cut(b, []byte{0})
	if !ok {
		return Begin{}, fault.New(fault.Protocol, "BEGIN: address has no end")
	}
	var m Begin
	var port string
	if str := string(s); strings.HasPrefix(str, "[") {
		m.Host, port, ok = strings.Cut(str[1:], "]:")
		ok = ok && strings.Contains(m.Host, ":")
	} else {
		m.Host, port, ok = strings.Cut(str, ":")
	}
	if !ok {
		return Begin{}, fault.New(fault.Protocol, "BEGIN: address is not HOST:PORT")
	}
	if err := checkHost(m.Host); err != nil {
		return Begin{}, fault.New(fault.Protocol, "BEGIN: %w", err)
	}
	n, err := beginPort(port)
	if err != nil {
		return Begin{}, err
	}
	m.Port, m.Flags = n, beginFlags(rest)
	return m, nil
}

// TTLUnknown stands for a time to live that the message does not tell.
const TTLUnknown = math.MaxUint32

// Connected is the body of a CONNECTED message.
type Connected struct {
	Addr netip.Addr // what the exit connected to; zero when not told
	TTL  uint32     // seconds that the address may be cached; TTLUnknown when not told
}

// Append writes the body: empty without an address.
func (m *Connected) Append(dst []byte) []byte {
	switch a := m.Addr; {
	case a.Is4():
		b := a.As4()
		dst = append(dst, b[:]...)
	case a.Is6():
		b := a.As16()
		dst = append(append(dst, 0, 0, 0, 0, 6), b[:]...)
	default:
		return dst
	}
	return binary.BigEndian.AppendUint32(dst, m.TTL)
}

// ParseConnected reads the body.
func ParseConnected(b []byte) (Connected, error) {
	m := Connected{TTL: TTLUnknown}
	if len(b) == 0 {
		return m, nil
	}
	r := bin.NewReader("CONNECTED", b)
	addr := r.Bytes(4)
	if r.Err() == nil && [4]byte(addr) == [4]byte{} {
		if t := r.U8(); t != 6 {
			r.Fail("address type %d is not 6", t)
		}
		addr = r.Bytes(16)
	}
	if r.Err() != nil {
		return Connected{}, r.Err()
	}
	m.Addr, _ = netip.AddrFromSlice(addr)
	if r.Len() >= 4 {
		m.TTL = r.U32()
	}
	return m, nil
}

// End is the body of an END message.
type End struct {
	Reason EndReason
	Addr   netip.Addr // with EndExitPolicy: what the name resolved to; zero when not told
	TTL    uint32     // with Addr: seconds, or TTLUnknown
}

// Append writes the body.
func (m *End) Append(dst []byte) []byte {
	dst = append(dst, byte(m.Reason))
	if m.Reason == EndExitPolicy && m.Addr.IsValid() {
		dst = append(dst, m.Addr.AsSlice()...)
		dst = binary.BigEndian.AppendUint32(dst, m.TTL)
	}
	return dst
}

// ParseEnd reads the body. An empty one means EndMisc, as the specification
// says.
func ParseEnd(b []byte) End {
	m := End{Reason: EndMisc, TTL: TTLUnknown}
	if len(b) == 0 {
		return m
	}
	m.Reason = EndReason(b[0])
	if b = b[1:]; m.Reason == EndExitPolicy {
		n := 4
		if len(b) >= 16 {
			n = 16
		}
		if len(b) >= n {
			m.Addr, _ = netip.AddrFromSlice(b[:n])
			if b = b[n:]; len(b) >= 4 {
				m.TTL = binary.BigEndian.Uint32(b)
			}
		}
	}
	return m
}
