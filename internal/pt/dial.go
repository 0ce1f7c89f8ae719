package pt

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// DialFunc opens a TCP connection.
type DialFunc func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)

// Dial connects to target through a client transport's SOCKS port, with the
// arguments of the bridge (pt-spec 3.5). dial opens the connection to that
// port.
func (m Method) Dial(ctx context.Context, dial DialFunc, target netip.AddrPort, args Args) (net.Conn, error) {
	c, err := dial(ctx, m.Addr)
	if err != nil {
		return nil, fault.New(fault.Network, "transport: its SOCKS port: %w", err)
	}
	stop := context.AfterFunc(ctx, panics.Contain(nil, nil, func() { c.SetDeadline(time.Unix(1, 0)) }))
	talk := askSocks5
	if m.Proto == "socks4" {
		talk = askSocks4
	}
	err = talk(c, target, args.socks())
	if !stop() {
		err = fault.New(fault.Timeout, "%w", context.Cause(ctx))
	}
	if err != nil {
		c.Close()
		return nil, fault.New(fault.KindOf(err), "transport: %w", err)
	}
	return c, nil
}

// socks returns the arguments in the form of a SOCKS request: "k=v;k=v", with
// backslash escapes, sorted.
func (a Args) socks() string {
	key := strings.NewReplacer(`\`, `\\`, `;`, `\;`, `=`, `\=`)
	value := strings.NewReplacer(`\`, `\\`, `;`, `\;`)
	var parts []string
	for _, k := range sortedKeys(a) {
		parts = append(parts, key.Replace(k)+"="+value.Replace(a[k]))
	}
	return strings.Join(parts, ";")
}

// maxSocksArgs is how many bytes fit into user name and password.
const maxSocksArgs = 255 + 255

// askSocks5 makes a request (RFC 1928), with the arguments as user name and
// password (RFC 1929).
func askSocks5(c io.ReadWriter, target netip.AddrPort, args string) error {
	if len(args) > maxSocksArgs {
		return fault.New(fault.Config, "the arguments have %d bytes; SOCKS5 can carry %d", len(args), maxSocksArgs)
	}
	method := byte(0)
	if args != "" {
		method = 2
	}
	var b [255]byte
	if err := exchange(c, []byte{5, 1, method}, b[:2]); err != nil {
		return err
	}
	if b[0] != 5 || b[1] != method {
		return fault.New(fault.Protocol, "SOCKS5: the answer has version %d and method %d, not method %d", b[0], b[1], method)
	}
	if args != "" {
		n := min(len(args), 255)
		user, pass := args[:n], args[n:]
		if pass == "" {
			pass = "\x00" // it must not be empty
		}
		req := append([]byte{1, byte(len(user))}, user...)
		req = append(append(req, byte(len(pass))), pass...)
		if err := exchange(c, req, b[:2]); err != nil {
			return err
		}
		if b[1] != 0 {
			return fault.New(fault.Config, "it refuses the bridge's arguments")
		}
	}
	req := []byte{5, 1, 0, 1}
	a := target.Addr().Unmap()
	if a.Is6() {
		req[3] = 4
	}
	req = append(req, a.AsSlice()...)
	req = append(req, byte(target.Port()>>8), byte(target.Port()))
	if err := exchange(c, req, b[:4]); err != nil {
		return err
	}
	if b[0] != 5 || b[1] != 0 {
		return fault.New(fault.Network, "it can't reach the bridge (SOCKS5 reply %d)", b[1])
	}
	var rest int
	switch b[3] {
	case 1:
		rest = 4
	case 4:
		rest = 16
	case 3:
		if _, err := io.ReadFull(c, b[:1]); err != nil {
			return fault.New(fault.Network, "SOCKS5: %w", err)
		}
		rest = int(b[0])
	default:
		return fault.New(fault.Protocol, "SOCKS5: address type %d", b[3])
	}
	for _, n := range []int{rest, 2} {
		if _, err := io.ReadFull(c, b[:n]); err != nil {
			return fault.New(fault.Network, "SOCKS5: %w", err)
		}
	}
	return nil
}

// askSocks4 makes a SOCKS4 request, with the arguments as user identifier.
func askSocks4(c io.ReadWriter, target netip.AddrPort, args string) error {
	a := target.Addr().Unmap()
	if !a.Is4() {
		return fault.New(fault.Config, "SOCKS4 cannot carry an IPv6 address")
	}
	if strings.Contains(args, "\x00") {
		return fault.New(fault.Config, "SOCKS4 cannot carry arguments with a zero byte")
	}
	req := append([]byte{4, 1, byte(target.Port() >> 8), byte(target.Port())}, a.AsSlice()...)
	req = append(append(req, args...), 0)
	var b [8]byte
	if err := exchange(c, req, b[:]); err != nil {
		return err
	}
	if b[0] != 0 || b[1] != 90 {
		return fault.New(fault.Network, "it can't reach the bridge (SOCKS4 reply %d)", b[1])
	}
	return nil
}

// exchange writes out, then reads an answer of fixed length into in.
func exchange(c io.ReadWriter, out, in []byte) error {
	if _, err := c.Write(out); err != nil {
		return fault.New(fault.Network, "SOCKS: %w", err)
	}
	if _, err := io.ReadFull(c, in); err != nil {
		return fault.New(fault.Network, "SOCKS: no answer: %w", err)
	}
	return nil
}
