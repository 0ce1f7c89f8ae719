// Package socksclient is the application's side of SOCKS 5 (RFC 1928, RFC 1929)
// with Tor's RESOLVE and RESOLVE_PTR (socks-extensions): it shows the proxy's
// reply codes, which ordinary clients hide.
package socksclient

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Reply is a SOCKS 5 reply code other than success: those of RFC 1928, and from
// 0xF0 on those of proposal 304.
type Reply byte

// The reply codes of RFC 1928.
const (
	GeneralFailure     Reply = 1
	NotAllowed         Reply = 2
	NetUnreachable     Reply = 3
	HostUnreachable    Reply = 4
	Refused            Reply = 5
	TTLExpired         Reply = 6
	CommandUnsupported Reply = 7
	AddressUnsupported Reply = 8
)

// Error returns the code with its name.
func (r Reply) Error() string {
	names := [...]string{"success", "general failure", "not allowed", "network unreachable", "host unreachable",
		"refused", "TTL expired", "command not supported", "address type not supported"}
	if int(r) < len(names) {
		return fmt.Sprintf("SOCKS reply %d: %s", byte(r), names[r])
	}
	return fmt.Sprintf("SOCKS reply %#x", byte(r))
}

const (
	cmdConnect    = 1
	cmdResolve    = 0xF0
	cmdResolvePTR = 0xF1

	typeIPv4 = 1
	typeName = 3
	typeIPv6 = 4
)

// Dialer connects through one proxy. If User or Pass is set, it authenticates; Tor
// proxies use the values as isolation tokens.
type Dialer struct {
	Proxy      string // host:port
	User, Pass string
}

// DialContext connects to addr (host:port). The network must be "tcp". The proxy
// resolves names.
func (d Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if network != "tcp" {
		return nil, fault.New(fault.Config, "SOCKS client: network %q, not tcp", network)
	}
	c, _, _, err := d.request(ctx, cmdConnect, addr)
	return c, err
}

// Resolve asks the proxy for a name's address.
func (d Dialer) Resolve(ctx context.Context, name string) (netip.Addr, error) {
	c, addr, host, err := d.request(ctx, cmdResolve, net.JoinHostPort(name, "0"))
	if err != nil {
		return netip.Addr{}, err
	}
	c.Close()
	if !addr.IsValid() {
		return netip.Addr{}, fault.New(fault.Protocol, "RESOLVE answered with the name %q", host)
	}
	return addr, nil
}

// ResolvePTR asks the proxy for an address's name.
func (d Dialer) ResolvePTR(ctx context.Context, addr netip.Addr) (string, error) {
	c, got, host, err := d.request(ctx, cmdResolvePTR, netip.AddrPortFrom(addr, 0).String())
	if err != nil {
		return "", err
	}
	c.Close()
	if got.IsValid() {
		return "", fault.New(fault.Protocol, "RESOLVE_PTR answered with the address %v", got)
	}
	return host, nil
}

// request does the whole exchange; the reply's address is a netip.Addr or a
// name.
func (d Dialer) request(ctx context.Context, cmd byte, target string) (conn net.Conn, addr netip.Addr, host string, err error) {
	req, err := encode(cmd, target)
	if err != nil {
		return nil, addr, "", err
	}
	var nd net.Dialer
	c, err := nd.DialContext(ctx, "tcp", d.Proxy)
	if err != nil {
		return nil, addr, "", fault.New(fault.Network, "SOCKS proxy: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() && err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			c.Close()
			conn = nil
			if cause := context.Cause(ctx); cause != nil {
				err = fault.New(fault.Timeout, "SOCKS request: %w (%w)", cause, err)
			}
		}
	}()
	if err := d.greet(c); err != nil {
		return nil, addr, "", err
	}
	if _, err := c.Write(req); err != nil {
		return nil, addr, "", err
	}
	addr, host, err = readReply(c)
	return c, addr, host, err
}

func (d Dialer) greet(c net.Conn) error {
	method := byte(0)
	if d.User != "" || d.Pass != "" {
		method = 2
	}
	if _, err := c.Write([]byte{5, 1, method}); err != nil {
		return err
	}
	var b [2]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return fault.New(fault.Protocol, "SOCKS method: %w", err)
	}
	if b != [2]byte{5, method} {
		return fault.New(fault.Protocol, "SOCKS method: %x", b)
	}
	if method == 0 {
		return nil
	}
	if len(d.User) > 255 || len(d.Pass) > 255 {
		return fault.New(fault.Config, "SOCKS user or password longer than 255 bytes")
	}
	auth := append([]byte{1, byte(len(d.User))}, d.User...)
	auth = append(append(auth, byte(len(d.Pass))), d.Pass...)
	if _, err := c.Write(auth); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return fault.New(fault.Protocol, "SOCKS authentication: %w", err)
	}
	if b[1] != 0 {
		return fault.New(fault.Refused, "SOCKS authentication: status %d", b[1])
	}
	return nil
}

func encode(cmd byte, target string) ([]byte, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, fault.New(fault.Config, "SOCKS target: %w", err)
	}
	p, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fault.New(fault.Config, "SOCKS target: %w", err)
	}
	b := []byte{5, cmd, 0}
	if a, err := netip.ParseAddr(host); err == nil && a.Is4() {
		b = append(append(b, typeIPv4), a.AsSlice()...)
	} else if err == nil {
		b = append(append(b, typeIPv6), a.AsSlice()...)
	} else if len(host) < 256 {
		b = append(append(b, typeName, byte(len(host))), host...)
	} else {
		return nil, fault.New(fault.Config, "SOCKS target: a name of %d bytes", len(host))
	}
	return binary.BigEndian.AppendUint16(b, uint16(p)), nil
}

// readReply reads a reply and not one byte more: the next bytes belong to the
// stream.
func readReply(r io.Reader) (addr netip.Addr, host string, err error) {
	var b [256]byte
	if _, err := io.ReadFull(r, b[:4]); err != nil {
		return addr, "", fault.New(fault.Protocol, "SOCKS reply: %w", err)
	}
	if b[0] != 5 || b[2] != 0 {
		return addr, "", fault.New(fault.Protocol, "SOCKS reply: %x", b[:4])
	}
	if b[1] != 0 {
		return addr, "", Reply(b[1])
	}
	typ, n := b[3], 0
	switch typ {
	case typeIPv4:
		n = 4
	case typeIPv6:
		n = 16
	case typeName:
		if _, err := io.ReadFull(r, b[:1]); err != nil {
			return addr, "", fault.New(fault.Protocol, "SOCKS reply: %w", err)
		}
		n = int(b[0])
	default:
		return addr, "", fault.New(fault.Protocol, "SOCKS reply: address type %d", typ)
	}
	if _, err := io.ReadFull(r, b[:n]); err != nil {
		return addr, "", fault.New(fault.Protocol, "SOCKS reply: %w", err)
	}
	var port [2]byte
	if _, err := io.ReadFull(r, port[:]); err != nil {
		return addr, "", fault.New(fault.Protocol, "SOCKS reply: %w", err)
	}
	if typ == typeName {
		return addr, string(b[:n]), nil
	}
	addr, _ = netip.AddrFromSlice(b[:n])
	return addr, "", nil
}
