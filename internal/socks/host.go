package socks

import (
	"net/netip"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
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
		return netaddr.Plain(a).String(), nil
	}
	if s == "" || len(s) > maxHost {
		return "", fault.New(fault.Protocol, "host name of %d bytes, not 1 to %d", len(s), maxHost)
	}
	if !netaddr.HostName(s) {
		return "", fault.New(fault.Protocol, "host name has a byte that no name has, an empty part or too long a one")
	}
	return s, nil
}
