package pt

import (
	"bufio"
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/proxy"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// dialer returns the function that opens connections: directly, or through the
// proxy that Tor names.
func dialer(u *url.URL) (func(ctx context.Context, addr string) (net.Conn, error), error) {
	direct := &net.Dialer{Timeout: 60 * time.Second}
	if u == nil {
		return func(ctx context.Context, addr string) (net.Conn, error) { return direct.DialContext(ctx, "tcp", addr) }, nil
	}
	if u.Scheme == "http" {
		return func(ctx context.Context, addr string) (net.Conn, error) { return connect(ctx, direct, u, addr) }, nil
	}
	var auth *proxy.Auth
	if u.User != nil {
		p, _ := u.User.Password()
		auth = &proxy.Auth{User: u.User.Username(), Password: p}
	}
	d, err := proxy.SOCKS5("tcp", u.Host, auth, direct)
	if err != nil {
		return nil, &proxyError{err.Error()}
	}
	return func(ctx context.Context, addr string) (net.Conn, error) {
		return d.(proxy.ContextDialer).DialContext(ctx, "tcp", addr)
	}, nil
}

// connect asks an HTTP proxy for a tunnel (RFC 9110, section 9.3.6).
func connect(ctx context.Context, d *net.Dialer, u *url.URL, addr string) (net.Conn, error) {
	c, err := d.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, panics.Contain(nil, nil, func() { c.SetDeadline(time.Unix(1, 0)) }))
	err = tunnel(c, u, addr)
	if !stop() { // the connection has a deadline that is over, or will have it soon
		err = fault.New(fault.Timeout, "the HTTP proxy: %w", context.Cause(ctx))
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// tunnel makes the request and reads the answer.
func tunnel(c net.Conn, u *url.URL, addr string) error {
	req := "CONNECT " + addr + " HTTP/1.1\r\nHost: " + addr + "\r\n"
	if u.User != nil {
		p, _ := u.User.Password()
		req += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+p)) + "\r\n"
	}
	if _, err := io.WriteString(c, req+"\r\n"); err != nil {
		return err
	}
	// Read one byte at a time: the bytes after the answer belong to the tunnel.
	r := bufio.NewReaderSize(io.LimitReader(oneByte{c}, 8<<10), 16)
	status, err := readHead(r)
	if err != nil {
		return fault.New(fault.Network, "the HTTP proxy's answer: %w", err)
	}
	if f := strings.Fields(status); len(f) < 2 || !strings.HasPrefix(f[0], "HTTP/1.") || f[1] != "200" {
		return fault.New(fault.Network, "the HTTP proxy refused the request: %q", status)
	}
	return nil
}

// oneByte reads a byte at a time.
type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:1]) }

// readHead reads an HTTP head and returns its first line.
func readHead(r *bufio.Reader) (status string, err error) {
	for first := true; ; first = false {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", err
		}
		line = strings.TrimRight(line, "\r\n")
		if first {
			status = line
		}
		if line == "" {
			return status, nil
		}
	}
}
