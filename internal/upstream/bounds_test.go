package upstream

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
)

// peer answers with a script, and keeps what it was asked.
type peer struct {
	net.Conn
	answer io.Reader
	asked  bytes.Buffer
	deaf   error // of Write
}

func (p *peer) Read(b []byte) (int, error) { return p.answer.Read(b) }
func (p *peer) Write(b []byte) (int, error) {
	if p.deaf != nil {
		return 0, p.deaf
	}
	return p.asked.Write(b)
}

const (
	fine4 = "\x00\x5a\x00\x00\x00\x00\x00\x00"
	fine5 = "\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
	fineL = "\x05\x02\x01\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
	fineH = "HTTP/1.1 200 OK\r\n\r\n"
)

// TestHostBounds: the longest name goes to the proxy, and what the protocol cannot carry is an error before
// anything was asked for: nobody must take that for a connection.
func TestHostBounds(t *testing.T) {
	ask := map[string]func(p *peer, host string) error{
		"socks4":  func(p *peer, host string) error { return SOCKS4(p, host, 80, "user") },
		"socks5":  func(p *peer, host string) error { return SOCKS5(p, host, 80, Login{}) },
		"connect": func(p *peer, host string) error { return connect(p, &Proxy{}, host, 80) },
	}
	fine := map[string]string{"socks4": fine4, "socks5": fine5, "connect": fineH}
	long := strings.Repeat("a", 255)
	for _, c := range []struct {
		how, host string
		ok        bool
	}{
		{"socks4", long, true}, {"socks4", long + "a", false}, {"socks4", "", false}, {"socks4", "a\x00b", false}, {"socks4", "192.0.2.1", true}, {"socks4", "2001:db8::1", false},
		{"socks5", long, true}, {"socks5", long + "a", false}, {"socks5", "", false}, {"socks5", "192.0.2.1", true}, {"socks5", "2001:db8::1", true},
		{"connect", "a.test", true}, {"connect", "a b", false}, {"connect", "a\r\nb", false}, {"connect", "a\x00", false},
	} {
		p := &peer{answer: strings.NewReader(fine[c.how])}
		err := ask[c.how](p, c.host)
		if (err == nil) != c.ok || err != nil && !fault.Is(err, fault.Config) {
			t.Errorf("%s, %d bytes: %v", c.how, len(c.host), err)
		}
		if asked := p.asked.String(); !c.ok && c.how != "socks5" && asked != "" || c.ok && len(c.host) == 255 && !strings.Contains(asked, c.host) {
			t.Errorf("%s, %d bytes: it was asked %q", c.how, len(c.host), asked)
		}
	}
	p := &peer{answer: strings.NewReader(fine4)}
	if err := SOCKS4(p, "a.test", 80, "us\x00er"); !fault.Is(err, fault.Config) || p.asked.Len() > 0 {
		t.Errorf("a user with a zero byte: %v", err)
	}
}

// TestBrokenOff: a proxy that hears nothing, or ends at any byte of its answer, makes no connection.
func TestBrokenOff(t *testing.T) {
	login := Login{User: "u", Password: "p", Known: true, Must: true}
	for name, c := range map[string]struct {
		answer string
		ask    func(p *peer) error
	}{
		"socks4":        {fine4, func(p *peer) error { return SOCKS4(p, "a.test", 80, "") }},
		"socks5":        {fine5, func(p *peer) error { return SOCKS5(p, "a.test", 80, Login{}) }},
		"socks5, login": {fineL, func(p *peer) error { return SOCKS5(p, "a.test", 80, login) }},
		"connect":       {fineH, func(p *peer) error { return connect(p, &Proxy{}, "a.test", 80) }},
	} {
		if err := c.ask(&peer{answer: strings.NewReader(c.answer)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := range c.answer {
			if err := c.ask(&peer{answer: strings.NewReader(c.answer[:n])}); !fault.Is(err, fault.Network) {
				t.Errorf("%s, %d bytes: %v", name, n, err)
			}
		}
		deaf := errors.New("deaf")
		if err := c.ask(&peer{answer: strings.NewReader(c.answer), deaf: deaf}); !fault.Is(err, fault.Network) || !errors.Is(err, deaf) {
			t.Errorf("%s, deaf: %v", name, err)
		}
	}
	p := &peer{answer: strings.NewReader(fineL)}
	if err := SOCKS5(p, "a.test", 80, login); err != nil || !strings.HasPrefix(p.asked.String(), "\x05\x01\x02\x01") {
		t.Errorf("a login that must be: %v, %q", err, p.asked.String())
	}
}

// TestAnswers: which answers of an HTTP proxy are a connection.
func TestAnswers(t *testing.T) {
	for answer, ok := range map[string]bool{
		"HTTP/1.1 200 OK": true, "HTTP/1.0 200": true, "HTTP/1.1 299 x": true, "HTTP/1.1 199 x": false, "HTTP/1.1 300 x": false, "HTTP/1.1 2000": false,
		"HTTP/1.1 200x": false, "HTTP/2 200 OK": false, "HTTP/1.1 20": false,
	} {
		if err := connect(&peer{answer: strings.NewReader(answer + "\r\n\r\n")}, &Proxy{}, "a.test", 80); (err == nil) != ok {
			t.Errorf("%q: %v", answer, err)
		}
	}
	for n, ok := range map[int]bool{maxHead: true, maxHead + 1: false} {
		head := "HTTP/1.1 200 OK\r\nx: "
		head += strings.Repeat("y", n-len(head)-4) + "\r\n\r\n"
		if err := connect(&peer{answer: strings.NewReader(head)}, &Proxy{}, "a.test", 80); (err == nil) != ok {
			t.Errorf("a head of %d bytes: %v", len(head), err)
		}
	}
}

// TestLoginBounds: the longest user names and passwords of each protocol.
func TestLoginBounds(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	for _, c := range []struct {
		check          func(user, password string) error
		user, password string
		ok             bool
	}{
		{checkSOCKS5, a(1), a(1), true}, {checkSOCKS5, a(255), a(255), true}, {checkSOCKS5, a(256), a(1), false}, {checkSOCKS5, a(1), a(256), false},
		{checkSOCKS5, "", a(1), false}, {checkSOCKS5, a(1), "", false},
		{checkSOCKS4, a(255), "", true}, {checkSOCKS4, a(256), "", false}, {checkSOCKS4, "", "", false}, {checkSOCKS4, "a\x00", "", false}, {checkSOCKS4, a(1), a(1), false},
		{checkHTTP, a(24), a(1000), true}, {checkHTTP, a(25), a(1000), false}, {checkHTTP, "", a(1), false}, {checkHTTP, "a:b", a(1), false},
	} {
		if err := c.check(c.user, c.password); (err == nil) != c.ok || err != nil && !fault.Is(err, fault.Config) {
			t.Errorf("%d and %d bytes: %v", len(c.user), len(c.password), err)
		}
	}
}
