package upstream

import (
	"io"
	"net/netip"
	"strings"

	"github.com/chivenet/chive/internal/fault"
)

// Login is the user name and password of a request by SOCKS 5 (RFC 1929).
type Login struct {
	User, Password string
	Known          bool // there are some
	// Must says that the request is worthless without them: a pluggable transport's
	// arguments are sent this way.
	Must bool
}

// The methods of SOCKS 5 (RFC 1928, section 3).
const (
	methodNone  = 0
	methodLogin = 2
	methodFail  = 0xff
)

func checkSOCKS5(user, password string) error {
	if n := len(user); n < 1 || n > 255 {
		return fault.New(fault.Config, "the user name has %d bytes, not 1 to 255", n)
	}
	if n := len(password); n < 1 || n > 255 {
		return fault.New(fault.Config, "the password has %d bytes, not 1 to 255", n)
	}
	return nil
}

// SOCKS5 asks a SOCKS 5 server for a connection to host, an address or a name.
func SOCKS5(c io.ReadWriter, host string, port uint16, l Login) error {
	offer := []byte{5, 1, methodNone}
	switch {
	case l.Must:
		offer = []byte{5, 1, methodLogin}
	case l.Known:
		offer = []byte{5, 2, methodNone, methodLogin}
	}
	var b [256]byte
	if err := exchange(c, offer, b[:2]); err != nil {
		return err
	}
	switch method := b[1]; {
	case b[0] != 5:
		return fault.New(fault.Protocol, "its answer is not SOCKS 5")
	case method == methodFail && !l.Known:
		return fault.New(fault.Config, "it wants a user name and a password")
	case method == methodFail:
		return fault.New(fault.Config, "it takes no user name and password")
	case method == methodLogin && l.Known:
		if err := login(c, l, b[:2]); err != nil {
			return err
		}
	case method != methodNone || l.Must:
		return fault.New(fault.Protocol, "it chose the method %d, which was not offered", method)
	}
	req, err := appendHost([]byte{5, 1, 0}, host, port)
	if err != nil {
		return err
	}
	if err := exchange(c, req, b[:4]); err != nil {
		return err
	}
	if b[0] != 5 {
		return fault.New(fault.Protocol, "its reply is not SOCKS 5")
	}
	if b[1] != 0 {
		return fault.New(fault.Network, "it cannot connect: %s (reply %d)", reply(b[1]), b[1])
	}
	rest := 0 // the address that it connects from, which nobody needs
	switch b[3] {
	case 1:
		rest = 4
	case 4:
		rest = 16
	case 3:
		if err := readFull(c, b[:1]); err != nil {
			return err
		}
		rest = int(b[0])
	default:
		return fault.New(fault.Protocol, "its reply has an address of type %d", b[3])
	}
	if err := readFull(c, b[:rest]); err != nil {
		return err
	}
	return readFull(c, b[:2])
}

func login(c io.ReadWriter, l Login, answer []byte) error {
	req := append([]byte{1, byte(len(l.User))}, l.User...)
	req = append(append(req, byte(len(l.Password))), l.Password...)
	if err := exchange(c, req, answer); err != nil {
		return err
	}
	if answer[1] != 0 {
		return fault.New(fault.Config, "it refuses the user name or the password")
	}
	return nil
}

// appendHost appends the address, or the name, and the port to a request.
func appendHost(req []byte, host string, port uint16) ([]byte, error) {
	switch a, err := netip.ParseAddr(host); {
	case err != nil && (host == "" || len(host) > 255):
		return nil, fault.New(fault.Config, "a name of %d bytes", len(host))
	case err != nil:
		req = append(append(req, 3, byte(len(host))), host...)
	case a.Unmap().Is4():
		req = append(append(req, 1), a.Unmap().AsSlice()...)
	default:
		req = append(append(req, 4), a.AsSlice()...)
	}
	return append(req, byte(port>>8), byte(port)), nil
}

// reply says what a reply of SOCKS 5 means (RFC 1928, section 6).
func reply(code byte) string {
	for i, text := range []string{"it failed", "its rules forbid it", "the network is unreachable", "the host is unreachable",
		"the host refuses the connection", "the way is too long", "it does not know CONNECT", "it does not know such addresses"} {
		if int(code) == i+1 {
			return text
		}
	}
	return "for a reason of its own"
}

func checkSOCKS4(user, password string) error {
	switch {
	case password != "":
		return fault.New(fault.Config, "SOCKS 4 has no passwords")
	case user == "" || len(user) > 255 || strings.Contains(user, "\x00"):
		return fault.New(fault.Config, "the user name is empty or too long, or has a zero byte")
	}
	return nil
}

// SOCKS4 asks a SOCKS 4 server for a connection to host; a name needs a server of SOCKS
// 4a. user may be empty.
func SOCKS4(c io.ReadWriter, host string, port uint16, user string) error {
	if strings.Contains(user, "\x00") {
		return fault.New(fault.Config, "SOCKS 4 carries no zero byte")
	}
	name := ""
	a, err := netip.ParseAddr(host)
	switch a = a.Unmap(); {
	case err != nil && (host == "" || len(host) > 255 || strings.Contains(host, "\x00")):
		return fault.New(fault.Config, "a name of %d bytes", len(host))
	case err != nil:
		a, name = netip.AddrFrom4([4]byte{0, 0, 0, 1}), host+"\x00"
	case !a.Is4():
		return fault.New(fault.Config, "SOCKS 4 carries no IPv6 address")
	}
	req := append([]byte{4, 1, byte(port >> 8), byte(port)}, a.AsSlice()...)
	req = append(append(append(req, user...), 0), name...)
	var b [8]byte
	if err := exchange(c, req, b[:]); err != nil {
		return err
	}
	switch {
	case b[0] != 0:
		return fault.New(fault.Protocol, "its reply is not SOCKS 4")
	case b[1] == 93:
		return fault.New(fault.Config, "it refuses the user name (reply 93)")
	case b[1] != 90:
		return fault.New(fault.Network, "it cannot connect (reply %d)", b[1])
	}
	return nil
}

// exchange writes out, then reads an answer of fixed length into in.
func exchange(c io.ReadWriter, out, in []byte) error {
	if _, err := c.Write(out); err != nil {
		return fault.New(fault.Network, "it does not listen: %w", plain(err))
	}
	return readFull(c, in)
}

func readFull(c io.Reader, b []byte) error {
	if _, err := io.ReadFull(c, b); err != nil {
		return fault.New(fault.Network, "no answer: %w", plain(err))
	}
	return nil
}
