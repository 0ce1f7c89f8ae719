package socks

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/metrics"
)

func TestConnectEveryVersion(t *testing.T) {
	addr := peer(t, echo)
	n := &network{hosts: map[string]string{"host.test": addr, "192.0.2.7": addr, "2001:db8::1": addr}}
	port := start(t, NewSOCKS(Config{Dialer: n}))
	socks4ok := []byte{0, 90, 0, 0, 0, 0, 0, 0}
	v6 := netip.MustParseAddr("2001:db8::1").As16()
	for _, tt := range []struct {
		name string
		talk func(c net.Conn)
		host string
	}{
		{"4", func(c net.Conn) { say(t, c, 4, 1, 0, 80, 192, 0, 2, 7, 0); hear(t, c, socks4ok...) }, "192.0.2.7"},
		{"4a", func(c net.Conn) {
			say(t, c, append([]byte{4, 1, 0, 80, 0, 0, 0, 1, 'u', 0}, "host.test\x00"...)...)
			hear(t, c, socks4ok...)
		}, "host.test"},
		{"5 name", func(c net.Conn) {
			say(t, c, 5, 1, 0)
			hear(t, c, 5, 0)
			say(t, c, request5(1, "host.test", 80)...)
			hear(t, c, ok5...)
		}, "host.test"},
		{"5 IPv6", func(c net.Conn) {
			say(t, c, 5, 2, 1, 0)
			hear(t, c, 5, 0)
			say(t, c, append(append([]byte{5, 1, 0, 4}, v6[:]...), 0, 80)...)
			hear(t, c, ok5...)
		}, "2001:db8::1"},
		{"5 IPv6 in brackets as a name", func(c net.Conn) {
			say(t, c, 5, 1, 0)
			hear(t, c, 5, 0)
			say(t, c, request5(1, "[2001:db8::1]", 80)...)
			hear(t, c, ok5...)
		}, "2001:db8::1"},
		{"5 with credentials", func(c net.Conn) {
			say(t, c, 5, 2, 0, 2)
			hear(t, c, 5, 2)
			say(t, c, 1, 1, 'u', 0)
			hear(t, c, 1, 0)
			say(t, c, request5(1, "host.test", 80)...)
			hear(t, c, ok5...)
		}, "host.test"},
		{"5 with credentials nobody asked for", func(c net.Conn) {
			say(t, c, 5, 1, 0)
			hear(t, c, 5, 0)
			say(t, c, 1, 1, 'u', 1, 'p')
			hear(t, c, 1, 0)
			say(t, c, request5(1, "host.test", 80)...)
			hear(t, c, ok5...)
		}, "host.test"},
		{"5, all at once, with early data", func(c net.Conn) {
			say(t, c, bytes.Join([][]byte{{5, 1, 0}, request5(1, "host.test", 80), []byte("early")}, nil)...)
			hear(t, c, append(append([]byte{5, 0}, ok5...), "early"...)...)
		}, "host.test"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := dialTCP(t, port)
			tt.talk(c)
			say(t, c, []byte("hello")...)
			c.CloseWrite()
			got, err := io.ReadAll(c)
			if string(got) != "hello" || err != nil {
				t.Fatalf("echo: %q %v", got, err)
			}
			asked := n.requests()
			if r := asked[len(asked)-1]; r.Host != tt.host || r.Port != 80 {
				t.Fatalf("asked for %s:%d", r.Host, r.Port)
			}
		})
	}
}

func TestReplies(t *testing.T) {
	reset := errors.New("x")
	n := &network{
		fail: map[string]error{
			"general":   reset,
			"policy":    fault.New(fault.Refused, "exit policy"),
			"late":      fault.New(fault.Timeout, "late"),
			"refused":   Because(ConnRefused, reset),
			"noroute":   Because(HostUnreach, reset),
			"nodir":     fault.New(fault.Directory, "no consensus"),
			"nodesc":    Because(OnionNoDesc, reset),
			"introtime": Because(OnionIntroTime, reset),
			"bad.onion": Because(OnionBadAddr, reset),
		},
	}
	plain := start(t, NewSOCKS(Config{Dialer: n}))
	extended := start(t, NewSOCKS(Config{Dialer: n, ExtendedErrors: true}))
	for _, tt := range []struct {
		name           string
		request        []byte
		plain, special byte
	}{
		{"unknown host", request5(1, "nowhere", 80), 4, 4},
		{"general", request5(1, "general", 80), 1, 1},
		{"exit policy", request5(1, "policy", 80), 2, 2},
		{"timeout", request5(1, "late", 80), 6, 6},
		{"refused", request5(1, "refused", 80), 5, 5},
		{"no route", request5(1, "noroute", 80), 4, 4},
		{"no directory", request5(1, "nodir", 80), 3, 3},
		{"no descriptor", request5(1, "nodesc", 80), 4, 0xF0},
		{"introduction timed out", request5(1, "introtime", 80), 6, 0xF7},
		{"not an onion address", request5(1, "bad.onion", 80), 4, 0xF6},
		{"BIND", request5(2, "host", 80), 7, 7},
		{"UDP ASSOCIATE", request5(3, "host", 80), 7, 7},
		{"unknown command", request5(9, "host", 80), 7, 7},
		{"port 0", request5(1, "host", 0), 1, 1},
		{"space in name", request5(1, "ho st", 80), 1, 1},
		{"empty name", request5(1, "", 80), 1, 1},
		{"address type", []byte{5, 1, 0, 9}, 8, 8},
		{"RESOLVE unknown", request5(0xF0, "nowhere", 0), 4, 4},
		{"RESOLVE_PTR of a name", request5(0xF1, "host", 0), 1, 1},
	} {
		for port, want := range map[string]byte{plain: tt.plain, extended: tt.special} {
			c := dialTCP(t, port)
			say(t, c, 5, 1, 0)
			hear(t, c, 5, 0)
			say(t, c, tt.request...)
			got, err := io.ReadAll(c)
			if err != nil || len(got) != 10 || got[1] != want {
				t.Errorf("%s: reply %x (%v), want code %#x", tt.name, got, err, want)
			}
		}
	}
	for _, bad := range [][]byte{
		{4, 2, 0, 80, 192, 0, 2, 1, 0},   // BIND
		{4, 1, 0, 80, 0, 0, 0, 0, 0},     // 0.0.0.0
		{4, 1, 0, 0, 192, 0, 2, 1, 0},    // port 0
		{4, 0xF1, 0, 0, 192, 0, 2, 1, 0}, // RESOLVE_PTR is SOCKS 5's
		{4, 1, 0, 80, 0, 0, 0, 1, 0, 0},  // empty name
		append([]byte{4, 1, 0, 80, 0, 0, 0, 1}, bytes.Repeat([]byte{'u'}, maxUserID+1)...),
	} {
		c := dialTCP(t, plain)
		say(t, c, bad...)
		hear(t, c, 0, 91, 0, 0, 0, 0, 0, 0)
	}
}

func TestGreetingRefused(t *testing.T) {
	port := start(t, NewSOCKS(Config{Dialer: &network{}}))
	c := dialTCP(t, port)
	say(t, c, 5, 1, 1) // GSSAPI only
	hear(t, c, 5, 0xFF)
	for user, ok := range map[string]byte{"<torS0X>": 1, "<torS0X>1": 1, "<torS0X>0x": 1, "<torS0X>0": 0, "<tor": 0} {
		c := dialTCP(t, port)
		say(t, c, 5, 1, 2)
		hear(t, c, 5, 2)
		say(t, c, append(append([]byte{1, byte(len(user))}, user...), 0)...)
		hear(t, c, 1, ok)
	}
	c = dialTCP(t, port)
	say(t, c, []byte("GET / HTTP/1.1\r\n\r\n")...)
	if got, _ := io.ReadAll(c); !strings.HasPrefix(string(got), "HTTP/1.0 501 ") {
		t.Errorf("a browser hears %q", got)
	}
}

func TestResolve(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("2001:db8::9")
	n := &network{names: map[string][]Answer{
		"both":      {{Addr: v6}, {Addr: v4}},
		"six":       {{Addr: v6}},
		"192.0.2.9": {{Name: "host.test"}},
	}}
	port := start(t, NewSOCKS(Config{Dialer: n}))
	ask := func(b ...byte) net.Conn {
		c := dialTCP(t, port)
		if b[0] == 5 {
			say(t, c, 5, 1, 0)
			hear(t, c, 5, 0)
		}
		say(t, c, b...)
		return c
	}
	hear(t, ask(request5(0xF0, "both", 0)...), append(append([]byte{5, 0, 0, 4}, v6.AsSlice()...), 0, 0)...)
	hear(t, ask(request5(0xF0, "198.51.100.1", 0)...), 5, 0, 0, 1, 198, 51, 100, 1, 0, 0)
	hear(t, ask(5, 0xF1, 0, 1, 192, 0, 2, 9, 0, 0), append([]byte{5, 0, 0, 3, 9}, "host.test\x00\x00"...)...)
	hear(t, ask(append([]byte{4, 0xF0, 0, 0, 0, 0, 0, 1, 0}, "both\x00"...)...), 0, 90, 0, 0, 192, 0, 2, 9)
	hear(t, ask(append([]byte{4, 0xF0, 0, 0, 0, 0, 0, 1, 0}, "six\x00"...)...), 0, 91, 0, 0, 0, 0, 0, 0)
}

func TestIsolationKeys(t *testing.T) {
	addr := peer(t, echo)
	n := &network{hosts: map[string]string{"a": addr, "b": addr}}
	key := func(at, host string, port uint16, cred ...string) isolation.Key {
		c := dialTCP(t, at)
		if len(cred) == 2 {
			say(t, c, 5, 1, 2)
			hear(t, c, 5, 2)
			b := append([]byte{1, byte(len(cred[0]))}, cred[0]...)
			say(t, c, append(append(b, byte(len(cred[1]))), cred[1]...)...)
			hear(t, c, 1, 0)
		} else {
			say(t, c, 5, 1, 0)
			hear(t, c, 5, 0)
		}
		say(t, c, request5(1, host, port)...)
		hear(t, c, ok5...)
		asked := n.requests()
		return asked[len(asked)-1].Key
	}
	loose := start(t, NewSOCKS(Config{Dialer: n, Name: "loose"}))
	tight := start(t, NewSOCKS(Config{Dialer: n, Name: "tight", Isolate: isolation.ByClientAddr | isolation.ByProtocol}))
	same := [][2]isolation.Key{
		{key(loose, "a", 1), key(loose, "b", 2)},
		{key(loose, "a", 1, "u", "p"), key(loose, "b", 2, "u", "p")},
		{key(tight, "a", 1), key(tight, "b", 2)}, // destinations are the client's to keep apart
	}
	for i, p := range same {
		if !p[0].MayShare(p[1]) {
			t.Errorf("pair %d should share", i)
		}
	}
	differ := [][2]isolation.Key{
		{key(loose, "a", 1), key(tight, "a", 1)},
		{key(loose, "a", 1), key(loose, "a", 1, "", "")},
		{key(loose, "a", 1, "u", "p"), key(loose, "a", 1, "u", "q")},
		{key(loose, "a", 1, "ab", "c"), key(loose, "a", 1, "a", "bc")},
	}
	for i, p := range differ {
		if p[0].MayShare(p[1]) {
			t.Errorf("pair %d should not share", i)
		}
	}
	if k := key(tight, "a", 1); k.Client != netip.MustParseAddr("127.0.0.1") || k.Protocol != "socks5" {
		t.Errorf("client %v, protocol %q", k.Client, k.Protocol)
	}
}

func TestBulkBothWays(t *testing.T) {
	const size = 8 << 20
	data := make([]byte, size)
	rand.Read(data)
	sums := make(chan [32]byte, 1)
	addr := peer(t, func(c *net.TCPConn) {
		// Both directions at once: it sends while it receives.
		h := sha256.New()
		done := make(chan struct{})
		go func() { c.Write(data); c.CloseWrite(); close(done) }()
		io.Copy(h, c)
		<-done
		sums <- [32]byte(h.Sum(nil))
	})
	var reg metrics.Registry
	s := NewSOCKS(Config{Dialer: &network{hosts: map[string]string{"h": addr}}, Metrics: &reg})
	c := dialTCP(t, start(t, s))
	say(t, c, 5, 1, 0)
	hear(t, c, 5, 0)
	say(t, c, request5(1, "h", 1)...)
	hear(t, c, ok5...)
	go func() { c.Write(data); c.CloseWrite() }()
	h := sha256.New()
	if _, err := io.Copy(h, c); err != nil {
		t.Fatal(err)
	}
	want := sha256.Sum256(data)
	if <-sums != want || [32]byte(h.Sum(nil)) != want {
		t.Fatal("bytes were changed")
	}
	if n := reg.Counter(`chive_port_accepted_total{port="socks"}`, "").Value(); n != 1 {
		t.Errorf("%d connections counted", n)
	}
}

// TestBrokenStreamIsNotAnEnd: a stream that ends by a failure reaches the
// client as a reset, not as the end of a complete answer.
func TestBrokenStreamIsNotAnEnd(t *testing.T) {
	addr := peer(t, func(c *net.TCPConn) {
		c.Write([]byte("half an ans"))
		io.ReadFull(c, make([]byte, 2)) // the client has it
		c.SetLinger(0)
	})
	c := dialTCP(t, start(t, NewSOCKS(Config{Dialer: &network{hosts: map[string]string{"h": addr}}})))
	say(t, c, 5, 1, 0)
	hear(t, c, 5, 0)
	say(t, c, request5(1, "h", 1)...)
	hear(t, c, append(append([]byte(nil), ok5...), "half an ans"...)...)
	say(t, c, []byte("go")...)
	if _, err := io.ReadAll(c); err == nil {
		t.Fatal("a clean end")
	}
}
