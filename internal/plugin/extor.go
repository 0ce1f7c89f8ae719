package plugin

import (
	"bytes"
	"crypto/hmac"
	"encoding/binary"
	"io"
	"net/netip"
	"os"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ptspec"
)

// readCookie reads the cookie file. Do not cache it: Tor rewrites it at each
// start.
func readCookie(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.New(fault.Config, "the ExtORPort's cookie: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(len(ptspec.CookieHeader)+ptspec.CookieLen+1)))
	if err != nil {
		return nil, fault.New(fault.Config, "the ExtORPort's cookie: %w", err)
	}
	cookie, ok := bytes.CutPrefix(b, []byte(ptspec.CookieHeader))
	if !ok || len(cookie) != ptspec.CookieLen {
		return nil, fault.New(fault.Config, "the ExtORPort's cookie file is malformed")
	}
	return cookie, nil
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
		put(ptspec.ExtUserAddr, user.String())
	}
	put(ptspec.ExtTransport, transport)
	put(ptspec.ExtDone, "")
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
		case ptspec.ExtOkay:
			return nil
		case ptspec.ExtDeny:
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
	if !hmac.Equal(b[:32], ptspec.ExtHash(cookie, ptspec.ExtServerHash, cn, sn)) {
		return fault.New(fault.Protocol, "it does not know the cookie")
	}
	if _, err := c.Write(ptspec.ExtHash(cookie, ptspec.ExtClientHash, cn, sn)); err != nil {
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
