package pt

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"net/netip"
	"os"

	"github.com/chivenet/chive/internal/fault"
)

// The Extended ORPort (ext-orport-spec.txt).
const (
	cookieHeader = "! Extended ORPort Auth Cookie !\x0a"
	cookieLen    = 32

	extServerHash = "ExtORPort authentication server-to-client hash"
	extClientHash = "ExtORPort authentication client-to-server hash"

	extDone      = 0x0000
	extUserAddr  = 0x0001
	extTransport = 0x0002
	extOkay      = 0x1000
	extDeny      = 0x1001
)

// readCookie reads the cookie file. Do not cache it: Tor rewrites it at each
// start.
func readCookie(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.New(fault.Config, "the ExtORPort's cookie: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(len(cookieHeader)+cookieLen+1)))
	if err != nil {
		return nil, fault.New(fault.Config, "the ExtORPort's cookie: %w", err)
	}
	cookie, ok := bytes.CutPrefix(b, []byte(cookieHeader))
	if !ok || len(cookie) != cookieLen {
		return nil, fault.New(fault.Config, "the ExtORPort's cookie file is malformed")
	}
	return cookie, nil
}

func extHash(cookie []byte, label string, cn, sn []byte) []byte {
	m := hmac.New(sha256.New, cookie)
	io.WriteString(m, label)
	m.Write(cn)
	m.Write(sn)
	return m.Sum(nil)
}

// extHello authenticates to an ExtORPort (SAFE_COOKIE), and sends the client's
// address and the transport's name. After that c carries OR traffic.
func extHello(c io.ReadWriter, rand io.Reader, cookie []byte, user netip.AddrPort, transport string) error {
	if err := extAuth(c, rand, cookie); err != nil {
		return fault.New(fault.Network, "ExtORPort: %w", err)
	}
	var out []byte
	put := func(cmd uint16, body string) {
		out = binary.BigEndian.AppendUint16(out, cmd)
		out = binary.BigEndian.AppendUint16(out, uint16(len(body)))
		out = append(out, body...)
	}
	if user.IsValid() {
		put(extUserAddr, user.String())
	}
	put(extTransport, transport)
	put(extDone, "")
	if _, err := c.Write(out); err != nil {
		return fault.New(fault.Network, "ExtORPort: %w", err)
	}
	for {
		var h [4]byte
		if _, err := io.ReadFull(c, h[:]); err != nil {
			return fault.New(fault.Network, "ExtORPort: reading the answer: %w", err)
		}
		if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint16(h[2:]))); err != nil {
			return fault.New(fault.Network, "ExtORPort: reading the answer: %w", err)
		}
		switch binary.BigEndian.Uint16(h[:]) {
		case extOkay:
			return nil
		case extDeny:
			return fault.New(fault.Refused, "the ExtORPort refuses the connection")
		}
	}
}

func extAuth(c io.ReadWriter, rand io.Reader, cookie []byte) error {
	found := false
	for {
		var t [1]byte
		if _, err := io.ReadFull(c, t[:]); err != nil {
			return err
		}
		if t[0] == 0 {
			break
		}
		found = found || t[0] == 1
	}
	if !found {
		return fault.New(fault.Protocol, "it does not offer SAFE_COOKIE")
	}
	msg := make([]byte, 33)
	msg[0] = 1
	if _, err := io.ReadFull(rand, msg[1:]); err != nil {
		return err
	}
	if _, err := c.Write(msg); err != nil {
		return err
	}
	cn := msg[1:]
	var b [64]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return err
	}
	sn := b[32:]
	if !hmac.Equal(b[:32], extHash(cookie, extServerHash, cn, sn)) {
		return fault.New(fault.Protocol, "it does not know the cookie")
	}
	if _, err := c.Write(extHash(cookie, extClientHash, cn, sn)); err != nil {
		return err
	}
	var status [1]byte
	if _, err := io.ReadFull(c, status[:]); err != nil {
		return err
	}
	if status[0] != 1 {
		return fault.New(fault.Refused, "it refuses the cookie")
	}
	return nil
}
