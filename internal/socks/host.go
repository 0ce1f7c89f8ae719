package socks

import (
	"net/netip"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// maxHost is the longest host name of DNS, and of a SOCKS 5 address field.
const maxHost = 255

// parseHost checks a host from a client and returns it as a Request carries
// it: an address without brackets, or a name in the letters of a host name
// (and "_", which real names contain).
func parseHost(s string) (string, error) {
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")); err == nil {
		if a.Zone() != "" {
			return "", fault.New(fault.Refused, "address with a zone: it means something on one machine only")
		}
		return a.Unmap().String(), nil
	}
	if s == "" || len(s) > maxHost {
		return "", fault.New(fault.Protocol, "host name of %d bytes, not 1 to %d", len(s), maxHost)
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		case c == '.' && i > 0 && s[i-1] != '.':
		default:
			return "", fault.New(fault.Protocol, "host name has byte %#02x at %d", c, i)
		}
	}
	return s, nil
}
