// Package upstream connects through a proxy on the way to the network: SOCKS 4,
// SOCKS 5 (RFC 1928, RFC 1929) or HTTP CONNECT (RFC 9110, section 9.3.6).
//
// If the proxy fails, the connection fails: nothing here connects to the target by
// itself. No error and no text of this package has the proxy's address, its user name
// or its password.
package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// Proxy is a proxy on the way to the network. It does not change.
type Proxy struct {
	kind           *kind
	addr           netip.AddrPort
	user, password string
	auth           bool // user and password are there
}

// kind is a protocol that a proxy speaks.
type kind struct {
	name    string   // for people
	schemes []string // of URLs; pluggable transports know the first (pt-spec 3.2)
	four    bool     // it carries no IPv6 address
	check   func(user, password string) error
	// ask asks for a connection to host and port, and reads the answer.
	ask func(c net.Conn, p *Proxy, host string, port uint16) error
}

var kinds = []*kind{
	{"SOCKS 4 proxy", []string{"socks4a", "socks4"}, true, checkSOCKS4, func(c net.Conn, p *Proxy, host string, port uint16) error {
		return SOCKS4(c, host, port, p.user)
	}},
	{"SOCKS 5 proxy", []string{"socks5"}, false, checkSOCKS5, func(c net.Conn, p *Proxy, host string, port uint16) error {
		return SOCKS5(c, host, port, Login{User: p.user, Password: p.password, Known: p.auth})
	}},
	{"HTTP proxy", []string{"http"}, false, checkHTTP, connect},
}

// Parse reads a URL such as "socks5://user:password@192.0.2.1:1080". The schemes are
// socks4, socks5 and http. The host is an IP address, or localhost, which is 127.0.0.1:
// other names would need the resolver of the system, which sees what is asked.
func Parse(s string) (*Proxy, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" { // err has the whole URL, with the password
		return nil, fault.New(fault.Config, `it is not a URL such as "socks5://127.0.0.1:1080"`)
	}
	p := new(Proxy)
	for _, k := range kinds {
		for _, scheme := range k.schemes {
			if u.Scheme == scheme {
				p.kind = k
			}
		}
	}
	switch {
	case u.Scheme == "https":
		return nil, fault.New(fault.Config, "https: Chive does not speak TLS to a proxy; one that knows CONNECT (C tor's HTTPSProxy) is http://IP:PORT")
	case p.kind == nil:
		return nil, fault.New(fault.Config, "%.20q is not socks4, socks5 or http", u.Scheme)
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fault.New(fault.Config, "there is more than scheme, user, password, address and port")
	}
	host := u.Hostname()
	if host == "localhost" {
		host = "127.0.0.1"
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return nil, fault.New(fault.Config, "the proxy's host is a name: give its IP address, because the resolver of this machine would learn of it")
	}
	ap, err := netip.ParseAddrPort(net.JoinHostPort(a.Unmap().String(), u.Port()))
	if err != nil || ap.Port() == 0 {
		return nil, fault.New(fault.Config, "the proxy's port is missing, or it is none")
	}
	p.addr = ap
	if u.User != nil {
		p.auth = true
		p.user = u.User.Username()
		p.password, _ = u.User.Password()
		if err := p.kind.check(p.user, p.password); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// String names the kind of proxy, without its address.
func (p *Proxy) String() string { return p.kind.name }

// LogValue is as String.
func (p *Proxy) LogValue() slog.Value { return slog.StringValue(p.String()) }

// GoString keeps %#v from the password.
func (p *Proxy) GoString() string { return p.String() }

// URL returns the proxy in the form of TOR_PT_PROXY, with its user name and password.
func (p *Proxy) URL() *url.URL {
	u := &url.URL{Scheme: p.kind.schemes[0], Host: p.addr.String()}
	switch {
	case p.auth && p.password == "":
		u.User = url.User(p.user)
	case p.auth:
		u.User = url.UserPassword(p.user, p.password)
	}
	return u
}

// OnlyIPv4 reports whether the proxy's protocol has no IPv6 addresses.
func (p *Proxy) OnlyIPv4() bool { return p.kind.four }

// DialFunc opens a TCP connection.
type DialFunc func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)

// Dial connects to host, an address or a name, by the proxy. It uses dial to reach the
// proxy, and for nothing else. It returns when the far end is connected, an error says
// so, or ctx ends.
func (p *Proxy) Dial(ctx context.Context, dial DialFunc, host string, port uint16) (net.Conn, error) {
	c, err := dial(ctx, p.addr)
	if err != nil {
		return nil, &failure{fault.New(kindOf(ctx), "the %s cannot be reached: %w", p, plain(err))}
	}
	err = Within(ctx, c, func() error { return p.kind.ask(c, p, host, port) })
	if err != nil {
		_ = c.Close()
		kind := fault.KindOf(err)
		err = fault.New(kind, "the %s: %w", p, err)
		if kind == fault.Config || kind == fault.Protocol { // for every target the same
			err = &failure{err}
		}
		return nil, err
	}
	return c, nil
}

// Listens reports whether the proxy takes a connection, which is closed at once.
func (p *Proxy) Listens(ctx context.Context, dial DialFunc) bool {
	c, err := dial(ctx, p.addr)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// failure is an error of the proxy itself.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// Failed reports whether the proxy itself is the cause of an error of Dial: it cannot be
// reached, refuses this client, or speaks another protocol. So the error says nothing
// about the target.
func Failed(err error) bool { return errors.As(err, new(*failure)) }

// DialAddr is Dial for an address and port.
func (p *Proxy) DialAddr(ctx context.Context, dial DialFunc, to netip.AddrPort) (net.Conn, error) {
	return p.Dial(ctx, dial, to.Addr().Unmap().WithZone("").String(), to.Port())
}

// Within runs talk, which uses the connection, until ctx ends. If ctx ends first, the
// connection cannot be used any more.
func Within(ctx context.Context, c net.Conn, talk func() error) error {
	stop := context.AfterFunc(ctx, panics.Contain(nil, nil, func() { _ = c.SetDeadline(time.Unix(1, 0)) }))
	err := talk()
	if !stop() { // the connection has a deadline that is over, or will have it soon
		return fault.New(fault.Timeout, "no answer: %w", context.Cause(ctx))
	}
	return err
}

func kindOf(ctx context.Context) fault.Kind {
	if ctx.Err() != nil {
		return fault.Timeout
	}
	return fault.Network
}

// plain removes the addresses that package net puts into its errors. It removes the
// operation, too, which the caller names.
func plain(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return fault.Why(op.Err)
	}
	return err
}
