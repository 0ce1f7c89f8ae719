package socks

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// SOCKS 5 reply codes (RFC 1928, section 6), and the first of proposal 304's.
const (
	rep5OK          = 0x00
	rep5General     = 0x01
	rep5NotAllowed  = 0x02
	rep5NetUnreach  = 0x03
	rep5HostUnreach = 0x04
	rep5Refused     = 0x05
	rep5TTLExpired  = 0x06
	rep5BadCommand  = 0x07
	rep5BadAddress  = 0x08
	rep5OnionNoDesc = 0xF0
)

// Authentication methods (RFC 1928, section 3).
const (
	methodNone     = 0x00
	methodUserPass = 0x02
	methodRefused  = 0xFF
)

// Address types (RFC 1928, section 5).
const (
	atypIPv4 = 0x01
	atypName = 0x03
	atypIPv6 = 0x04
)

// errBadAddressType is a request with an address type that RFC 1928 does not
// have; it has its own reply code.
var errBadAddressType = errors.New("SOCKS 5 address type unknown")

// readMethods reads the greeting after the version byte and chooses a method:
// user name and password where the client offers them, since a client that
// has credentials wants isolation. preferNone chooses the other way round.
func readMethods(r *bufio.Reader, preferNone bool) (byte, error) {
	n, err := r.ReadByte()
	if err != nil {
		return methodRefused, readError(err)
	}
	methods := make([]byte, n)
	if err := readFull(r, methods); err != nil {
		return methodRefused, err
	}
	order := []byte{methodUserPass, methodNone}
	if preferNone {
		slices.Reverse(order)
	}
	for _, m := range order {
		if slices.Contains(methods, m) {
			return m, nil
		}
	}
	return methodRefused, nil
}

// readUserPass reads RFC 1929's message after its version byte. Both fields
// may be empty: some clients send them so.
func readUserPass(r *bufio.Reader) (user, pass string, err error) {
	for _, field := range []*string{&user, &pass} {
		n, err := r.ReadByte()
		if err != nil {
			return "", "", readError(err)
		}
		b := make([]byte, n)
		if err := readFull(r, b); err != nil {
			return "", "", err
		}
		*field = string(b)
	}
	return user, pass, nil
}

// checkAuth applies "SOCKS5 authentication extensions" (proposal 351): a user
// name that begins with <torS0X> names a format, of which this
// package knows only 0 with nothing after it: plain isolation.
func checkAuth(user string) error {
	if format, ok := strings.CutPrefix(user, "<torS0X>"); ok && format != "0" {
		return fault.New(fault.Refused, "SOCKS 5 user name has an unknown <torS0X> format")
	}
	return nil
}

// readSOCKS5 reads a request after its version byte.
func readSOCKS5(r *bufio.Reader) (command, error) {
	var fixed [3]byte // command, reserved, address type
	c := command{version: 5}
	if err := readFull(r, fixed[:]); err != nil {
		return c, err
	}
	c.cmd = fixed[0]
	var n int
	switch fixed[2] {
	case atypIPv4:
		n = 4
	case atypIPv6:
		n = 16
	case atypName:
		b, err := r.ReadByte()
		if err != nil {
			return c, readError(err)
		}
		n = int(b)
	default:
		return c, fault.New(fault.Protocol, "%w: %#02x", errBadAddressType, fixed[2])
	}
	b := make([]byte, n+2)
	if err := readFull(r, b); err != nil {
		return c, err
	}
	c.port = binary.BigEndian.Uint16(b[n:])
	if fixed[2] == atypName {
		c.host = string(b[:n])
	} else {
		a, _ := netip.AddrFromSlice(b[:n])
		c.host, c.literal = a.Unmap().String(), true
	}
	return c, nil
}

// appendReply5 appends a SOCKS 5 reply. ans is a lookup's answer; the zero
// Answer becomes 0.0.0.0, as CONNECT has no bound address to tell.
func appendReply5(b []byte, code byte, ans Answer) []byte {
	b = append(b, 5, code, 0)
	switch {
	case ans.Name != "" && len(ans.Name) <= maxHost:
		b = append(append(b, atypName, byte(len(ans.Name))), ans.Name...)
	case ans.Addr.Is6() && !ans.Addr.Is4In6():
		b = append(append(b, atypIPv6), ans.Addr.AsSlice()...)
	case ans.Addr.IsValid():
		b = append(append(b, atypIPv4), ans.Addr.Unmap().AsSlice()...)
	default:
		b = append(b, atypIPv4, 0, 0, 0, 0)
	}
	return append(b, 0, 0)
}

// readFull fills b.
func readFull(r *bufio.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	return readError(err)
}

// readError turns an end in the middle of a request into an error that says so.
func readError(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		return nil
	}
	return fault.New(fault.Protocol, "request cut short: %w", err)
}
