package lab_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/socksclient"
	"github.com/chivenet/chive/lab"
)

// isolation opens streams by the SOCKS port and by the client's own calls, and
// checks which of them are on one circuit.
func isolation(t *testing.T, nw *lab.Network) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	events, stop := nw.Client.Events()
	defer stop()

	type dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// circuit dials, and returns the number of the circuit that the stream is on.
	circuit := func(d dial, addr string) uint64 {
		t.Helper()
		c, err := d(ctx, "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		for {
			select {
			case e := <-events:
				if s, ok := e.(*chive.StreamEvent); ok && s.State == chive.StreamOpen {
					return s.Circuit
				}
			case <-ctx.Done():
				t.Fatal("no event tells of the stream")
			}
		}
	}
	socks := func(user, pass string) dial {
		return socksclient.Dialer{Proxy: nw.SOCKS, User: user, Pass: pass}.DialContext
	}
	call := func(key string) dial {
		return func(ctx context.Context, network, addr string) (net.Conn, error) {
			return nw.Client.DialContext(chive.WithIsolation(ctx, key), network, addr)
		}
	}
	child := nw.Client.Isolated()
	page, err := url.Parse(nw.URL(1))
	if err != nil {
		t.Fatal(err)
	}
	echo, web := nw.Echo, page.Host

	// The streams of a group share a circuit with each other, and with no other
	// group.
	groups := []struct {
		name  string
		dials []dial
	}{
		{"no credentials", []dial{socks("", ""), socks("", "")}},
		{"a user", []dial{socks("u", "p"), socks("u", "p")}},
		{"another password", []dial{socks("u", "q"), socks("u", "q")}},
		{"the same bytes, parted otherwise", []dial{socks("up", "")}},
		{"calls", []dial{nw.Client.DialContext, call("")}},
		{"calls with a key", []dial{call("u"), call("u")}},
		{"a child", []dial{child.DialContext, child.DialContext}},
	}
	seen := map[uint64]string{}
	for _, g := range groups {
		first := circuit(g.dials[0], echo)
		if other, ok := seen[first]; ok {
			t.Errorf("%s shares a circuit with %s", g.name, other)
		}
		seen[first] = g.name
		for _, d := range g.dials[1:] {
			if circuit(d, web) != first {
				t.Errorf("%s: two circuits", g.name)
			}
		}
	}

	// After a reload with the option, the client isolates by destination too,
	// also for the streams of listeners.
	before := circuit(socks("u", "p"), echo)
	reload := func(byPort bool) {
		t.Helper()
		cfg := nw.Client.Config()
		cfg.IsolateDestPort = byPort
		if err := nw.Client.Reload(cfg); err != nil {
			t.Fatal(err)
		}
	}
	reload(true)
	a, b := circuit(socks("u", "p"), echo), circuit(socks("u", "p"), web)
	if a == b || a == before || circuit(socks("u", "p"), echo) != a {
		t.Errorf("by port: circuits %d and %d, before %d", a, b, before)
	}
	reload(false)
	if c := circuit(socks("u", "p"), web); c != before {
		t.Errorf("no longer by port: circuit %d, not %d", c, before)
	}
}

// httpIsolation sends requests of several identities to one server by one HTTP client, and
// counts the streams and their circuits.
func httpIsolation(t *testing.T, nw *lab.Network) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := nw.Client.Isolated()
	web := client.HTTPClient()
	defer web.CloseIdleConnections()
	events, stop := nw.Client.Events()
	defer stop()
	// get returns the circuit of the stream that the request opened; false: it opened none.
	get := func(key string) (circuit uint64, opened bool) {
		t.Helper()
		req, err := http.NewRequestWithContext(chive.WithIsolation(ctx, key), http.MethodGet, nw.URL(1000), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != 1000 {
			t.Fatalf("%d bytes, %v", n, err)
		}
		for {
			select {
			case e := <-events: // the event was there before the stream carried anything
				if s, ok := e.(*chive.StreamEvent); ok && s.State == chive.StreamOpen {
					return s.Circuit, true
				}
			default:
				return 0, false
			}
		}
	}
	seen := map[uint64]string{}
	for _, key := range []string{"", "a", "b", "c"} {
		circuit, opened := get(key)
		if other, ok := seen[circuit]; ok || !opened {
			t.Errorf("key %q is on a circuit of key %q", key, other)
		}
		seen[circuit] = key
		if _, opened := get(key); opened {
			t.Errorf("key %q: the second request opens another stream", key)
		}
	}
	client.NewIdentity()
	for _, key := range []string{"", "a", "b", "c"} {
		circuit, opened := get(key)
		if other, ok := seen[circuit]; ok || !opened {
			t.Errorf("after a new identity, key %q is on a circuit that key %q had before", key, other)
		}
		seen[circuit] = key
	}
}
