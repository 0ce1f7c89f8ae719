package localhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/localhttp"
	"github.com/chivenet/chive/internal/localhttp/guardtest"
)

// serve returns what serves a port.
func serve(t *testing.T, g localhttp.Guard, h http.HandlerFunc) func(net.Listener) func() {
	return func(l net.Listener) func() {
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		all.Go(func() {
			s := &localhttp.Server{Handler: h, Guard: g, Port: "test"}
			if err := s.Serve(ctx, l); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		return func() { cancel(); all.Wait() }
	}
}

func fine(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "secret") }

// TestGuard walks a port with names.
func TestGuard(t *testing.T) {
	guardtest.Walk(t, guardtest.Port{
		Line: "GET / HTTP/1.1", OK: "HTTP/1.1 200 ", Names: []string{"relay.example"},
		Serve: serve(t, localhttp.Guard{Names: []string{"Relay.Example"}}, fine),
	})
}

// TestHosts: Hosts that pass by default, on loopback only, and pages of the port's own.
func TestHosts(t *testing.T) {
	request := func(host, name, value string) *http.Request {
		r := &http.Request{Host: host, Header: http.Header{}}
		if name != "" {
			r.Header.Set(name, value)
		}
		return r
	}
	open, closed := localhttp.Guard{}, localhttp.Guard{Loopback: true, NoPages: true}
	for _, test := range []struct {
		host, name, value string
		open, closed      bool
	}{
		{host: "127.0.0.2:1", open: true, closed: true},
		{host: "192.0.2.1:9035", open: true}, // as Prometheus of another machine asks
		{host: "[2001:db8::1]:9035", open: true},
		{host: "[::ffff:127.0.0.1]:1", open: true, closed: true},
		{host: "[fe80::1%eth0]:9035", open: true},
		{host: "relay.example:9035"},
		{host: "localhost."},
		{host: "127.1"}, // a browser writes it as 127.0.0.1
		{host: "127.0.0.1:9035", name: "Origin", value: "http://127.0.0.1:9035", open: true},
		{host: "127.0.0.1:9035", name: "Origin", value: "https://127.0.0.1:9035"},
		{host: "127.0.0.1:9035", name: "Origin"},
		{host: "127.0.0.1:9035", name: "Sec-Fetch-Site", value: "none", open: true},
		{host: "127.0.0.1:9035", name: "Sec-Fetch-Site", value: "same-origin", open: true},
	} {
		r := request(test.host, test.name, test.value)
		if _, why := open.Refuse(r); (why == "") != test.open {
			t.Errorf("%+v: %q", test, why)
		}
		if _, why := closed.Refuse(r); (why == "") != test.closed {
			t.Errorf("%+v, on loopback only: %q", test, why)
		}
	}
}

// TestExtensions: an extension that is listed passes a port that no page passes, and nothing else does
// by it.
func TestExtensions(t *testing.T) {
	const listed = "chrome-extension://abcdefghijklmnopabcdefghijklmnop"
	g := localhttp.Guard{Loopback: true, NoPages: true, Extensions: []string{"moz-extension://0-1", listed}}
	for _, test := range []struct {
		host    string
		origins []string
		site    string
		pass    bool
	}{
		{host: "127.0.0.1:8545", origins: []string{listed}, pass: true},
		{host: "127.0.0.1:8545", origins: []string{"moz-extension://0-1"}, site: "cross-site", pass: true},
		{host: "page.example:8545", origins: []string{listed}},
		{host: "127.0.0.1:8545", origins: []string{listed + "x"}},
		{host: "127.0.0.1:8545", origins: []string{"chrome-extension://"}},
		{host: "127.0.0.1:8545", origins: []string{strings.ToUpper(listed)}},
		{host: "127.0.0.1:8545", origins: []string{listed, listed}},
		{host: "127.0.0.1:8545", origins: []string{listed, "http://page.example"}},
		{host: "127.0.0.1:8545", origins: []string{"http://127.0.0.1:8545"}},
		{host: "127.0.0.1:8545", origins: []string{"null"}},
		{host: "127.0.0.1:8545", site: "none"},
	} {
		r := &http.Request{Host: test.host, Header: http.Header{}}
		if test.origins != nil {
			r.Header["Origin"] = test.origins
		}
		if test.site != "" {
			r.Header.Set("Sec-Fetch-Site", test.site)
		}
		if status, why := g.Refuse(r); (why == "") != test.pass || !test.pass && status != http.StatusForbidden {
			t.Errorf("%+v: %d %q", test, status, why)
		}
	}
}

func TestCheckExtension(t *testing.T) {
	for s, ok := range map[string]bool{
		"chrome-extension://abcdefghijklmnopabcdefghijklmnop": true, "moz-extension://0a1b2c3d-0000-4000-8000-0123456789ab": true,
		"safari-web-extension://0A1B2C3D-0000-4000-8000-0123456789AZ": true, "chrome-extension://az09-AZ": true,
		"chrome-extension://": false, "chrome-extension://*": false, "chrome-extension://a/b": false, "chrome-extension://a:1": false, "chrome-extension://a@b": false,
		"chrome-extension://a[": false, "chrome-extension://a{": false, "chrome-extension://a`": false, "chrome-extension:a": false, "https://page.example": false, "http://127.0.0.1": false, "null": false, "*": false, "": false,
		"://a": false, "chrome-extension://é": false,
	} {
		if err := localhttp.CheckExtension(s); (err == nil) != ok {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestCheckName(t *testing.T) {
	for s, ok := range map[string]bool{"relay.example": true, "relay": true, "relay.example:9035": false, "": false, "192.0.2.1": false, "::1": false, "*": false} {
		if err := localhttp.CheckName(s); (err == nil) != ok {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// TestCrowd: connections beyond the bound take the place of the oldest without a request
// under way.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := guardtest.NewListener()
		began, wait := make(chan struct{}), make(chan struct{})
		defer serve(t, localhttp.Guard{}, func(w http.ResponseWriter, r *http.Request) {
			defer localhttp.Keep(r.Context())()
			close(began)
			<-wait
			fine(w, r)
		})(l)()
		busy := l.Dial()
		go io.WriteString(busy, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		<-began
		start := time.Now()
		first := l.Dial()
		for range localhttp.MaxOpen - 1 {
			l.Dial()
		}
		if n, err := first.Read(make([]byte, 1)); n > 0 || err == nil || time.Since(start) > 0 {
			t.Errorf("the oldest idle connection: %d bytes, %v after %v", n, err, time.Since(start))
		}
		close(wait)
		if got, err := io.ReadAll(busy); err != nil || !strings.HasSuffix(string(got), "secret") {
			t.Errorf("the request under way: %q, %v", got, err)
		}
	})
}

// TestServerBounds: whoever fills a port with connections that say nothing, begin a header or begin a
// body keeps nobody out, and what is begun has a time.
func TestServerBounds(t *testing.T) {
	for name, cheap := range map[string]string{
		"nothing": "", "part of a header": "GET / HTTP/1.1\r\nHost: loc", "part of a body": "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n1",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := guardtest.NewListener()
				defer serve(t, localhttp.Guard{}, func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.ReadAll(r.Body); err == nil {
						fine(w, r)
					}
				})(l)()
				var last net.Conn
				for range 2 * localhttp.MaxOpen {
					last = l.Dial()
					go io.WriteString(last, cheap)
				}
				synctest.Wait()
				start := time.Now()
				honest := l.Dial()
				go io.WriteString(honest, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
				if got, err := io.ReadAll(honest); err != nil || !strings.HasSuffix(string(got), "secret") || time.Since(start) > 0 {
					t.Errorf("%q, %v after %v", got, err, time.Since(start))
				}
				if _, err := io.ReadAll(last); err != nil || time.Since(start) > 10*time.Second {
					t.Errorf("the last of them stays for %v (%v)", time.Since(start), err)
				}
			})
		})
	}
}
