package pt

import (
	"crypto/hmac"
	"encoding/binary"
	"io"
	"net/netip"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ptspec"
)

// NewExtCookie makes the cookie of an ExtORPort and writes its file, readable by
// its owner only. Each start makes a new cookie (ext-orport-spec 2.1).
func NewExtCookie(rand io.Reader, path string) ([]byte, error) {
	cookie := make([]byte, ptspec.CookieLen)
	if _, err := io.ReadFull(rand, cookie); err != nil {
		return nil, fault.New(fault.Local, "the ExtORPort's cookie: %w", err)
	}
	if err := atomicfile.Write(path, append([]byte(ptspec.CookieHeader), cookie...), atomicfile.Secret); err != nil {
		return nil, fault.New(fault.Local, "the ExtORPort's cookie: %w", err)
	}
	return cookie, nil
}

// ExtPeer holds what a server transport reports about a connection.
type ExtPeer struct {
	User      netip.AddrPort // the client's address; zero if not reported
	Transport string         // empty if not reported
}

// maxExtBody bounds the body of a command: no known command is longer.
const maxExtBody = 1 << 10

// maxExtCommands bounds the commands before DONE.
const maxExtCommands = 32

// AcceptExt is the ExtORPort's side of a new connection: it authenticates the
// transport with the cookie and reads the client's address and the transport's
// name. After that c carries OR traffic. The caller must bound the time, and
// close c on an error.
func AcceptExt(c io.ReadWriter, rand io.Reader, cookie []byte) (ExtPeer, error) {
	if err := acceptExtAuth(c, rand, cookie); err != nil {
		return ExtPeer{}, fault.New(fault.KindOf(err), "ExtORPort: %w", err)
	}
	peer, err := readExtCommands(c)
	if err != nil {
		if fault.Is(err, fault.Protocol) {
			c.Write([]byte{ptspec.ExtDeny >> 8, ptspec.ExtDeny & 0xff, 0, 0}) // the transport is refused, even if the write fails
		}
		return ExtPeer{}, fault.New(fault.KindOf(err), "ExtORPort: %w", err)
	}
	if _, err := c.Write([]byte{ptspec.ExtOkay >> 8, ptspec.ExtOkay & 0xff, 0, 0}); err != nil {
		return ExtPeer{}, fault.New(fault.Network, "ExtORPort: %w", err)
	}
	return peer, nil
}

// acceptExtAuth is the server's side of SAFE_COOKIE (ext-orport-spec 3.1).
func acceptExtAuth(c io.ReadWriter, rand io.Reader, cookie []byte) error {
	if _, err := c.Write([]byte{1, 0}); err != nil {
		return fault.Wrap(fault.Network, err)
	}
	var b [33]byte
	if _, err := io.ReadFull(c, b[:1]); err != nil {
		return fault.Wrap(fault.Network, err)
	}
	if b[0] != 1 {
		return fault.New(fault.Protocol, "authentication type %d was not offered", b[0])
	}
	cn := b[1:]
	if _, err := io.ReadFull(c, cn); err != nil {
		return fault.Wrap(fault.Network, err)
	}
	sn := make([]byte, 32)
	if _, err := io.ReadFull(rand, sn); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	if _, err := c.Write(append(ptspec.ExtHash(cookie, ptspec.ExtServerHash, cn, sn), sn...)); err != nil {
		return fault.Wrap(fault.Network, err)
	}
	var h [32]byte
	if _, err := io.ReadFull(c, h[:]); err != nil {
		return fault.Wrap(fault.Network, err)
	}
	ok := hmac.Equal(h[:], ptspec.ExtHash(cookie, ptspec.ExtClientHash, cn, sn))
	status := []byte{0}
	if ok {
		status[0] = 1
	}
	if _, err := c.Write(status); err != nil {
		return fault.Wrap(fault.Network, err)
	}
	if !ok {
		return fault.New(fault.Refused, "it does not know the cookie")
	}
	return nil
}

// readExtCommands reads commands up to DONE (ext-orport-spec 3.2). It ignores
// unknown commands.
func readExtCommands(r io.Reader) (p ExtPeer, err error) {
	var buf [maxExtBody]byte
	for range maxExtCommands {
		var h [4]byte
		if _, err := io.ReadFull(r, h[:]); err != nil {
			return p, fault.Wrap(fault.Network, err)
		}
		n := binary.BigEndian.Uint16(h[2:])
		if n > maxExtBody {
			return p, fault.New(fault.Protocol, "a command of %d bytes is too long", n)
		}
		body := buf[:n]
		if _, err := io.ReadFull(r, body); err != nil {
			return p, fault.Wrap(fault.Network, err)
		}
		switch binary.BigEndian.Uint16(h[:]) {
		case ptspec.ExtDone:
			return p, nil
		case ptspec.ExtUserAddr:
			a, err := netip.ParseAddrPort(string(body))
			if err != nil {
				return p, fault.New(fault.Protocol, "USERADDR is not <address>:<port>")
			}
			p.User = netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
		case ptspec.ExtTransport:
			if !ptspec.ValidName(string(body)) {
				return p, fault.New(fault.Protocol, "TRANSPORT is not a transport's name")
			}
			p.Transport = string(body)
		}
	}
	return p, fault.New(fault.Protocol, "more than %d commands before DONE", maxExtCommands)
}
