package socks

import (
	"bufio"
	"encoding/binary"
	"net/netip"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/stream"
)

// SOCKS commands. The last two are Tor's.
const (
	cmdConnect    = 0x01
	cmdBind       = 0x02
	cmdUDP        = 0x03
	cmdResolve    = 0xF0
	cmdResolvePTR = 0xF1
)

// SOCKS 4 reply codes.
const (
	rep4Granted  = 90
	rep4Rejected = 91
)

// maxUserID bounds the user name of a SOCKS 4 request, which has no length of
// its own.
const maxUserID = 512

// command is a request in any version of SOCKS.
type command struct {
	version byte // 4 or 5
	cmd     byte
	host    string // as on the wire: unchecked when a name
	literal bool   // the host came as an address, not as text
	port    uint16
	auth    isolation.Auth
	user    string // SOCKS 4's
	said    stream.Origin
}

// readSOCKS4 reads a request whose version byte has been read: command, port,
// address, user name and, for 4a, a host name.
func readSOCKS4(r *bufio.Reader) (command, error) {
	var fixed [7]byte
	c := command{version: 4}
	if err := readFull(r, fixed[:]); err != nil {
		return c, err
	}
	c.cmd, c.port = fixed[0], binary.BigEndian.Uint16(fixed[1:])
	user, err := readString(r, maxUserID)
	if err != nil {
		return c, fault.New(fault.Protocol, "SOCKS 4 user name: %w", err)
	}
	if c.user = user; user != "" {
		c.auth = isolation.NewAuth(user)
		c.said.User, c.said.HasAuth = user, true
	}
	ip := [4]byte(fixed[3:])
	switch {
	case ip == [4]byte{}:
		return c, fault.New(fault.Protocol, "SOCKS 4 request for address 0.0.0.0")
	case ip[0] == 0 && ip[1] == 0 && ip[2] == 0: // 4a: the name follows
		if c.host, err = readString(r, maxHost); err != nil {
			return c, fault.New(fault.Protocol, "SOCKS 4a host name: %w", err)
		}
	default:
		c.host, c.literal = netip.AddrFrom4(ip).String(), true
	}
	return c, nil
}

// readString reads at most max bytes up to a NUL, which it drops.
func readString(r *bufio.Reader, max int) (string, error) {
	var b []byte
	for {
		c, err := r.ReadByte()
		if err != nil {
			return "", readError(err)
		}
		if c == 0 {
			return string(b), nil
		}
		if len(b) == max {
			return "", fault.New(fault.Protocol, "more than %d bytes", max)
		}
		b = append(b, c)
	}
}

// appendReply4 appends a SOCKS 4 reply; a is the answer of a RESOLVE, or
// invalid.
func appendReply4(b []byte, code byte, a netip.Addr) []byte {
	b = append(b, 0, code, 0, 0)
	if !a.Is4() {
		a = netip.IPv4Unspecified()
	}
	ip := a.As4()
	return append(b, ip[:]...)
}
