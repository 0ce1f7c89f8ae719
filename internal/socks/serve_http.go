package socks

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/localhttp"
	"github.com/chivenet/chive/internal/stream"
)

// NewHTTP returns a server of HTTP CONNECT ("Tor's support for HTTP CONNECT,
// and extensions"). It is a tunnel: it forwards no request in any other way.
func NewHTTP(cfg Config) *Server {
	s := newServer("http", cfg)
	s.handle = s.serveHTTP
	return s
}

const (
	httpHeaders = "Tor-Capabilities: \r\nVia: tor/1.0 tor-network (chive)\r\n"
	httpOptions = "HTTP/1.0 200 OK\r\nAllow: OPTIONS, CONNECT\r\n" +
		"Tor-Capabilities: \r\nServer: tor/1.0 (chive)\r\n\r\n"
	httpNotProxy = "HTTP/1.0 405 Method Not Allowed\r\nAllow: OPTIONS, CONNECT\r\n" +
		"Content-Type: text/plain; charset=utf-8\r\nTor-Capabilities: \r\nServer: tor/1.0 (chive)\r\n\r\n" +
		"This port is an HTTP CONNECT tunnel, not an HTTP proxy. It carries https, for which programs\n" +
		"send CONNECT. For http, use the SOCKS port (with curl: --proxy socks5h://ADDRESS).\n"
)

// httpGuard knows the requests of web pages. A browser sends CONNECT only to what it was
// told is a proxy.
var httpGuard = localhttp.Guard{Loopback: true}

// errHeadTooLong is a request head that does not fit the handshake's buffer.
var errHeadTooLong = errors.New("the request's head is too long")

// serveHTTP reads one request and carries it out.
func (s *Server) serveHTTP(ctx context.Context, c *client) {
	req, err := readHead(c.br)
	if err != nil {
		if errors.Is(err, errHeadTooLong) {
			c.Write([]byte("HTTP/1.0 431 Request Header Fields Too Large\r\n\r\n"))
		}
		s.count.failed.Inc()
		c.tell("a local program's HTTP request was refused", err)
		return
	}
	// Web pages get no answer that would tell what listens here. A browser
	// sends a whole URL (absolute-form) only to what it was told is a proxy.
	_, refused := httpGuard.Refuse(req)
	local := refused == ""
	proxied := req.URL != nil && req.URL.Host != ""
	switch {
	case req.Method == http.MethodConnect:
		s.tunnel(ctx, c, req)
	case req.Method == http.MethodOptions && local:
		c.Write([]byte(httpOptions))
	case local || proxied:
		c.Write([]byte(httpNotProxy))
	default:
		s.count.failed.Inc()
		s.tell("an HTTP request that is not CONNECT was closed without an answer", "method", len(req.Method))
	}
}

func (s *Server) tunnel(ctx context.Context, c *client, hr *http.Request) {
	req, err := s.tunnelRequest(c, hr)
	if err != nil {
		s.count.failed.Inc()
		c.Write([]byte("HTTP/1.0 400 Bad Request\r\n" + httpHeaders + "\r\n"))
		c.tell("a local program's CONNECT was refused", err)
		return
	}
	if hr.Header.Get("Tor-RPC-Target") != "" {
		s.count.failed.Inc()
		c.Write([]byte("HTTP/1.0 501 Not Implemented (no RPC support)\r\n" + httpHeaders + "\r\n"))
		return
	}
	c.first = []byte("HTTP")
	stream, err := s.dial(ctx, c, req)
	if err != nil {
		c.answer([]byte("HTTP/1.0 " + ReasonOf(err).http() + "\r\n" + httpHeaders + "\r\n"))
		c.tell("a local program's CONNECT failed", err)
		return
	}
	if err := c.answer([]byte("HTTP/1.0 200 OK\r\n" + httpHeaders + "\r\n")); err != nil {
		stream.Close()
		return
	}
	join(c, stream)
}

// tunnelRequest reads the destination and the credentials.
func (s *Server) tunnelRequest(c *client, hr *http.Request) (Request, error) {
	h, p, err := net.SplitHostPort(hr.RequestURI)
	if err != nil {
		return Request{}, fault.New(fault.Protocol, "CONNECT without a host and a port")
	}
	port, err := strconv.ParseUint(p, 10, 16)
	if err != nil || port == 0 {
		return Request{}, fault.New(fault.Protocol, "CONNECT to a port that is not 1 to 65535")
	}
	host, err := parseHost(h)
	if err != nil {
		return Request{}, err
	}
	var auth isolation.Auth
	fields := []string{"Proxy-Authorization", "Tor-Stream-Isolation", "X-Tor-Stream-Isolation"}
	for i, name := range fields {
		fields[i] = hr.Header.Get(name)
		if fields[i] != "" {
			auth = isolation.NewAuth(fields[:i+1]...)
		}
	}
	return Request{Host: host, Port: uint16(port), Key: s.key("http", c.addr, auth), From: stream.Origin{Protocol: "http", Addr: c.program()}}, nil
}

// readHead reads a request's line and headers, which must fit br's buffer,
// and leaves what follows in br.
func readHead(br *bufio.Reader) (*http.Request, error) {
	for seen := 0; ; {
		b, _ := br.Peek(br.Buffered())
		// The end may span reads, so look again at the last three bytes.
		if i := bytes.Index(b[max(seen-3, 0):], []byte("\r\n\r\n")); i >= 0 {
			n := max(seen-3, 0) + i + 4
			req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b[:n])))
			br.Discard(n)
			if err != nil {
				return nil, fault.New(fault.Protocol, "HTTP request: %w", errHidden(err))
			}
			return req, nil
		}
		seen = len(b)
		_, err := br.Peek(seen + 1)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fault.New(fault.Protocol, "HTTP request: %w", errHeadTooLong)
		case errors.Is(err, io.EOF):
			return nil, fault.New(fault.Protocol, "HTTP request: %w", io.ErrUnexpectedEOF)
		case err != nil:
			return nil, fault.New(fault.Network, "HTTP request: %w", err)
		}
	}
}

// errHidden replaces net/http's parse errors, which quote the request and so
// would carry a host name into a log.
func errHidden(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.ErrUnexpectedEOF
	}
	return errors.New("malformed")
}
