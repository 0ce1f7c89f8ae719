package socks

import (
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/isolation"
)

func TestHTTPConnect(t *testing.T) {
	n := &network{hosts: map[string]string{"host.test": peer(t, echo), "2001:db8::1": peer(t, echo)}}
	port := start(t, NewHTTP(Config{Dialer: n}))
	for _, head := range []string{
		"CONNECT host.test:443 HTTP/1.1\r\nHost: host.test:443\r\n\r\n",
		"CONNECT host.test:443 HTTP/1.0\r\n\r\n",
		"CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		c := dialTCP(t, port)
		say(t, c, []byte(head+"early ")...)
		say(t, c, []byte("late")...)
		c.CloseWrite()
		got, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(got), "HTTP/1.0 200 ") || !strings.HasSuffix(string(got), "\r\n\r\nearly late") {
			t.Errorf("%q: %q %v", head, got, err)
		}
	}
}

func TestHTTPAnswers(t *testing.T) {
	x := errors.New("x")
	n := &network{fail: map[string]error{
		"general": x, "policy": fault.New(fault.Refused, "policy"), "late": fault.New(fault.Timeout, "late"),
		"refused": Because(ConnRefused, x), "noroute": Because(HostUnreach, x), "nodir": Because(NotReady, x),
		"bad.onion": Because(OnionBadAddr, x), "gone.onion": Because(OnionNoDesc, x), "slow.onion": Because(OnionIntroTime, x),
	}}
	port := start(t, NewHTTP(Config{Dialer: n}))
	for head, want := range map[string]string{
		"CONNECT nowhere:80 HTTP/1.1\r\nHost: x":                   "503",
		"CONNECT general:80 HTTP/1.1\r\nHost: x":                   "500",
		"CONNECT policy:80 HTTP/1.1\r\nHost: x":                    "403",
		"CONNECT late:80 HTTP/1.1\r\nHost: x":                      "504",
		"CONNECT refused:80 HTTP/1.1\r\nHost: x":                   "403",
		"CONNECT noroute:80 HTTP/1.1\r\nHost: x":                   "503",
		"CONNECT nodir:80 HTTP/1.1\r\nHost: x":                     "503",
		"CONNECT bad.onion:80 HTTP/1.1\r\nHost: x":                 "400",
		"CONNECT gone.onion:80 HTTP/1.1\r\nHost: x":                "502",
		"CONNECT slow.onion:80 HTTP/1.1\r\nHost: x":                "504",
		"CONNECT host HTTP/1.1\r\nHost: x":                         "400",
		"CONNECT host:0 HTTP/1.1\r\nHost: x":                       "400",
		"CONNECT host:65536 HTTP/1.1\r\nHost: x":                   "400",
		"CONNECT ho$t:80 HTTP/1.1\r\nHost: x":                      "400",
		"CONNECT host:80 HTTP/1.1\r\nHost: x\r\nTor-RPC-Target: y": "501",
		"OPTIONS * HTTP/1.1\r\nHost: localhost":                    "200",
		"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1:8118":               "200",
		"GET / HTTP/1.1\r\nHost: [::1]:8118":                       "405",
		"POST http://localhost/ HTTP/1.1\r\nHost: localhost":       "405",
		"GET / HTTP/1.1\r\nHost: rebound.example":                  "",
		"OPTIONS * HTTP/1.1\r\nHost: rebound.example":              "",
		"GET http://host.test/ HTTP/1.1\r\nHost: host.test":        "405",
		"OPTIONS http://host.test/ HTTP/1.1\r\nHost: host.test":    "405",
		"nonsense": "",
		"CONNECT h:80 HTTP/1.1\r\nX: " + strings.Repeat("x", 2*handshakeBuffer): "431",
	} {
		c := dialTCP(t, port)
		c.Write([]byte(head + "\r\n\r\n"))
		var got [12]byte
		io.ReadFull(c, got[:])
		if code := strings.Trim(strings.TrimPrefix(string(got[:]), "HTTP/1.0 "), "\x00"); code != want {
			t.Errorf("%.60q: %q, want %q", head, code, want)
		}
	}
}

func TestHTTPIsolation(t *testing.T) {
	n := &network{hosts: map[string]string{"h": peer(t, echo)}}
	port := start(t, NewHTTP(Config{Dialer: n, Name: "http", Isolate: isolation.ByClientAddr}))
	key := func(headers string) isolation.Key {
		c := dialTCP(t, port)
		say(t, c, []byte("CONNECT h:80 HTTP/1.1\r\nHost: h\r\n"+headers+"\r\n")...)
		hear(t, c, []byte("HTTP/1.0 200")...)
		asked := n.requests()
		return asked[len(asked)-1].Key
	}
	none := key("")
	if !none.MayShare(key("")) || none.Auth != (isolation.Auth{}) || none.Client != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("without credentials: client %v", none.Client)
	}
	all := []isolation.Key{
		none, key("Proxy-Authorization: Basic dG9yOmE=\r\n"), key("Proxy-Authorization: Basic dG9yOmI=\r\n"),
		key("Tor-Stream-Isolation: a\r\n"), key("X-Tor-Stream-Isolation: a\r\n"),
		key("Tor-Stream-Isolation: a\r\nX-Tor-Stream-Isolation: a\r\n"),
	}
	for i, a := range all {
		for j, b := range all[:i] {
			if a.MayShare(b) {
				t.Errorf("%d and %d are not apart", i, j)
			}
		}
	}
}
