package plugin

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strconv"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ptspec"
)

// Replies of SOCKS5 (RFC 1928, section 6).
const (
	socksOK          = 0
	socksFailure     = 1
	socksUnreachable = 4
	socksCommand     = 7
	socksAddress     = 8
)

// socksRequest is Tor's request to a client transport.
type socksRequest struct {
	target string // host:port
	args   ptspec.Args
}

// readSocks runs a SOCKS5 handshake up to the request. The user name and
// password, joined, are the arguments (pt-spec 3.5).
func readSocks(c io.ReadWriter) (*socksRequest, error) {
	var b [512]byte
	read := func(n int) ([]byte, error) { _, err := io.ReadFull(c, b[:n]); return b[:n], err }
	h, err := read(2)
	if err != nil {
		return nil, err
	}
	if h[0] != 5 {
		return nil, fault.New(fault.Protocol, "SOCKS version %d isn't 5", h[0])
	}
	if h, err = read(int(h[1])); err != nil {
		return nil, err
	}
	method := byte(0xff)
	for _, m := range h {
		if m == 2 || m == 0 && method != 2 {
			method = m
		}
	}
	if _, err := c.Write([]byte{5, method}); err != nil {
		return nil, err
	}
	r := &socksRequest{args: ptspec.Args{}}
	switch method {
	case 0xff:
		return nil, fault.New(fault.Protocol, "no SOCKS authentication method in common")
	case 2:
		if r.args, err = readUserPass(read); err != nil {
			c.Write([]byte{1, 1})
			return nil, err
		}
		if _, err := c.Write([]byte{1, 0}); err != nil {
			return nil, err
		}
	}
	if h, err = read(4); err != nil {
		return nil, err
	}
	if h[0] != 5 || h[1] != 1 {
		writeSocks(c, socksCommand)
		return nil, fault.New(fault.Protocol, "SOCKS command %d isn't CONNECT", h[1])
	}
	var host string
	switch h[3] {
	case 1:
		if h, err = read(4); err == nil {
			host = netip.AddrFrom4([4]byte(h)).String()
		}
	case 4:
		if h, err = read(16); err == nil {
			host = netip.AddrFrom16([16]byte(h)).String()
		}
	case 3:
		if h, err = read(1); err == nil {
			if h, err = read(int(h[0])); err == nil {
				host = string(h)
			}
		}
	default:
		writeSocks(c, socksAddress)
		return nil, fault.New(fault.Protocol, "SOCKS address type %d is unknown", h[3])
	}
	if err != nil {
		return nil, err
	}
	if h, err = read(2); err != nil {
		return nil, err
	}
	r.target = net.JoinHostPort(host, strconv.Itoa(int(binary.BigEndian.Uint16(h))))
	return r, nil
}

// readUserPass reads RFC 1929's request as arguments.
func readUserPass(read func(int) ([]byte, error)) (ptspec.Args, error) {
	h, err := read(2)
	if err != nil {
		return nil, err
	}
	if h[0] != 1 {
		return nil, fault.New(fault.Protocol, "SOCKS password version %d isn't 1", h[0])
	}
	if h, err = read(int(h[1])); err != nil {
		return nil, err
	}
	s := string(h)
	if h, err = read(1); err != nil {
		return nil, err
	}
	if h, err = read(int(h[0])); err != nil {
		return nil, err
	}
	if p := string(h); p != "\x00" { // stands for an empty password, which SOCKS5 does not allow
		s += p
	}
	return ptspec.ParseClientArgs(s)
}

// writeSocks answers a request.
func writeSocks(w io.Writer, reply byte) error {
	_, err := w.Write([]byte{5, reply, 0, 1, 0, 0, 0, 0, 0, 0})
	return err
}
