// Package guardtest checks that a local port that speaks HTTP is behind the guard: each
// port's tests walk the same list of requests.
package guardtest

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Port is a port that speaks HTTP, with a request to it.
type Port struct {
	Line   string // a request's first line, such as "GET /metrics HTTP/1.1"
	Header string // what its requests have beside Host, each line with its end
	Body   string
	OK     string // what its answer to an allowed request begins with
	Names  []string
	// Serve serves the port on l until stop, which waits until nothing is left.
	Serve func(l net.Listener) (stop func())
}

// row is a request.
type row struct {
	name  string
	host  string
	extra string // lines of the header
	line  string // instead of the port's
	pass  bool
}

func rows(p *Port) []row {
	method, rest, _ := strings.Cut(p.Line, " ")
	path, version, _ := strings.Cut(rest, " ")
	all := []row{
		{name: "an address", host: "127.0.0.1:9035", pass: true},
		{name: "an address without a port", host: "127.0.0.1", pass: true},
		{name: "an IPv6 literal", host: "[::1]:9035", pass: true},
		{name: "an IPv6 literal without a port", host: "[::1]", pass: true},
		{name: "localhost", host: "localhost:9035", pass: true},
		{name: "LOCALHOST", host: "LOCALHOST", pass: true},
		{name: "a rebound name", host: "page.example:9035"},
		{name: "a name that begins with an address", host: "127.0.0.1.page.example:9035"},
		{name: "a name that begins with localhost", host: "localhost.page.example"},
		{name: "a name that ends with localhost", host: "page-localhost"},
		{name: "an IPv6 literal that does not end", host: "[::1"},
		{name: "no host"},
		{name: "another page", host: "127.0.0.1:9035", extra: "Origin: http://page.example\r\n"},
		{name: "a page of another port", host: "127.0.0.1:9035", extra: "Origin: http://127.0.0.1:8080\r\n"},
		{name: "a page without an origin", host: "127.0.0.1:9035", extra: "Origin: null\r\n"},
		{name: "two origins", host: "127.0.0.1:9035", extra: "Origin: http://127.0.0.1:9035\r\nOrigin: http://page.example\r\n"},
		{name: "another site", host: "127.0.0.1:9035", extra: "Sec-Fetch-Site: cross-site\r\n"},
		{name: "the same site", host: "127.0.0.1:9035", extra: "Sec-Fetch-Site: same-site\r\n"},
		{name: "a URL with another host", host: "127.0.0.1:9035", line: method + " http://page.example" + strings.Replace(path, "*", "/", 1) + " " + version},
		{name: "options of the whole port", host: "page.example:9035", line: "OPTIONS * HTTP/1.1"}, // net/http has an answer of its own
		{name: "too long a header", host: "127.0.0.1:9035", extra: "X: " + strings.Repeat("x", 32<<10) + "\r\n"},
	}
	for _, n := range p.Names {
		all = append(all, row{name: "a listed name", host: n + ":9035", pass: true}, row{name: "a name below a listed one", host: "page." + n})
	}
	return all
}

// Walk sends all requests to the port, and one that does not end.
func Walk(t *testing.T, p Port) {
	for _, r := range rows(&p) {
		t.Run(r.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				line := r.line
				if line == "" {
					line = p.Line
				}
				host := "Host: " + r.host + "\r\n"
				if r.name == "no host" {
					host = "Host:\r\n"
				}
				got := p.ask(t, line+"\r\n"+host+r.extra+p.Header+"\r\n"+p.Body)
				if strings.HasPrefix(got, p.OK) != r.pass {
					t.Errorf("answered %.60q", got)
				}
			})
		})
	}
	for name, part := range map[string]string{"no header": "", "a slow header": p.Line + "\r\nHost: localhost\r\n" + p.Header} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // time passes when nothing else can happen
				if got := p.ask(t, part); strings.HasPrefix(got, p.OK) {
					t.Errorf("answered %.60q", got)
				}
			})
		})
	}
}

// patience is how long a port may wait for a header.
const patience = time.Minute

// ask sends a request, and reads until the port ends the connection or has waited for too long.
func (p *Port) ask(t *testing.T, request string) string {
	t.Helper()
	defer time.Sleep(patience) // virtual: net/http ends a refused connection half a second later
	l := NewListener()
	defer p.Serve(l)()
	c := l.Dial()
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	go io.WriteString(c, request) // a port may answer before it has read all
	var got strings.Builder
	b := make([]byte, 4096)
	for {
		n, err := c.Read(b)
		got.Write(b[:n])
		if n > 0 && strings.Contains(got.String(), "\r\n\r\n") {
			return got.String()
		}
		if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
			t.Errorf("the port has neither answered nor ended the connection after %v", patience)
		}
		if err != nil {
			return got.String()
		}
	}
}

// Listener gives out connections in memory.
type Listener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

// NewListener returns an open listener.
func NewListener() *Listener {
	return &Listener{conns: make(chan net.Conn, 1), done: make(chan struct{})}
}

// Dial connects.
func (l *Listener) Dial() net.Conn {
	near, far := net.Pipe()
	l.conns <- far
	return near
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9035} }
