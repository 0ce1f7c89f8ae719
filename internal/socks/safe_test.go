package socks

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/isolation"
)

// unsafeRequests are requests with an address, and how the server refuses them.
var unsafeRequests = []struct {
	name      string
	say, deny []byte
}{
	{"SOCKS 4", []byte{4, 1, 0, 80, 192, 0, 2, 7, 0}, []byte{0, rep4Rejected}},
	{"SOCKS 5 IPv4", []byte{5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 7, 0, 80}, []byte{5, 0, 5, rep5NotAllowed}},
	{"SOCKS 5 IPv6", []byte{5, 1, 0, 5, 1, 0, 4, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 80}, []byte{5, 0, 5, rep5NotAllowed}},
}

// TestSafeSOCKS refuses requests that have an address, and takes those with a name.
func TestSafeSOCKS(t *testing.T) {
	var log bytes.Buffer
	addr := peer(t, echo)
	n := &network{hosts: map[string]string{"host.test": addr, "192.0.2.7": addr}}
	s := NewSOCKS(Config{Dialer: n, SafeSOCKS: true, WarnUnsafe: true, TestSOCKS: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	port := start(t, s)
	for _, r := range unsafeRequests {
		c := dialTCP(t, port)
		say(t, c, r.say...)
		hear(t, c, r.deny...)
	}
	c := dialTCP(t, port)
	say(t, c, append([]byte{5, 1, 0}, request5(1, "host.test", 80)...)...)
	hear(t, c, append([]byte{5, 0}, ok5...)...)
	c.Close()
	c = dialTCP(t, port)
	say(t, c, append([]byte{4, 1, 0, 80, 0, 0, 0, 1, 0}, "host.test\x00"...)...)
	hear(t, c, 0, 90)
	c.Close()
	if got := n.requests(); len(got) != 2 {
		t.Errorf("%d requests reached the network, want those with names", len(got))
	}
	s.Close()
	text := log.String()
	if strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "safe-socks") || strings.Count(text, "safe=true") != 2 || strings.Count(text, "safe=false") != 3 {
		t.Errorf("want one warning, and a line for each request:\n%s", text)
	}
	if strings.Contains(text, "192.0.2") || strings.Contains(text, "2001:") || strings.Contains(text, "host.test") {
		t.Errorf("the log has a destination:\n%s", text)
	}
}

// TestUnsafeWarnings come once a minute, and the requests are served.
func TestUnsafeWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		cfg := Config{WarnUnsafe: true, Log: slog.New(slog.NewTextHandler(&log, nil)), Warned: new(Seldom)}
		s, other := newServer("socks", cfg), newServer("socks", cfg)
		ask := func(literal bool) {
			t.Helper()
			if err := s.judge(command{version: 5, cmd: cmdConnect, literal: literal}); err != nil {
				t.Error(err)
			}
		}
		count := func(want int) {
			t.Helper()
			if got := strings.Count(log.String(), "level=WARN"); got != want {
				t.Errorf("%d warnings, want %d", got, want)
			}
		}
		ask(false)
		count(0)
		ask(true)
		ask(true)
		if err := other.judge(command{version: 4, cmd: cmdConnect, literal: true}); err != nil {
			t.Error(err)
		}
		count(1)
		time.Sleep(sparing)
		ask(true)
		count(2)
		s.cfg.WarnUnsafe = false
		time.Sleep(sparing)
		ask(true)
		count(2)
		// A reverse lookup has no name to give.
		s.cfg.SafeSOCKS = true
		if err := s.judge(command{version: 5, cmd: cmdResolvePTR, literal: true}); err != nil {
			t.Error(err)
		}
	})
}

// TestAuth: the function is asked about every program, and what it returns reaches the
// dialler.
func TestAuth(t *testing.T) {
	type key struct{}
	addr := peer(t, echo)
	n := &network{hosts: map[string]string{"host.test": addr}}
	seen := make(chan string, 1)
	port := start(t, NewSOCKS(Config{
		Dialer: seeing{n, func(ctx context.Context) { s, _ := ctx.Value(key{}).(string); seen <- s }},
		Auth: func(ctx context.Context, user, password string) (context.Context, error) {
			if user != "alice" || password == "wrong" {
				return nil, errors.New("unknown")
			}
			return context.WithValue(ctx, key{}, user), nil
		},
	}))
	alice := []byte{1, 5, 'a', 'l', 'i', 'c', 'e', 2, 'o', 'k'}
	for _, c := range []struct {
		name      string
		say, hear []byte
		let       bool
	}{
		{"right", append(append([]byte{5, 1, 2}, alice...), request5(1, "host.test", 80)...), append([]byte{5, 2, 1, 0}, ok5...), true},
		{"wrong password", []byte{5, 1, 2, 1, 5, 'a', 'l', 'i', 'c', 'e', 5, 'w', 'r', 'o', 'n', 'g'}, []byte{5, 2, 1, 1}, false},
		{"nobody", []byte{5, 1, 0}, []byte{5, methodRefused}, false},
		{"SOCKS 4a", append([]byte{4, 1, 0, 80, 0, 0, 0, 1}, "alice\x00host.test\x00"...), []byte{0, 90}, true},
		{"SOCKS 4a, nobody", append([]byte{4, 1, 0, 80, 0, 0, 0, 1}, "\x00host.test\x00"...), []byte{0, rep4Rejected}, false},
	} {
		conn := dialTCP(t, port)
		say(t, conn, c.say...)
		hear(t, conn, c.hear...)
		conn.Close()
		if c.let {
			if got := <-seen; got != "alice" {
				t.Errorf("%s: the dialler's context has %q", c.name, got)
			}
		}
	}
	if got := n.requests(); len(got) != 2 || got[0].Key.Auth == (isolation.Auth{}) {
		t.Errorf("%d requests reached the network", len(got))
	}
}

// TestPreferNoAuth: a program that offers both methods is asked for no user name.
func TestPreferNoAuth(t *testing.T) {
	c := dialTCP(t, start(t, NewSOCKS(Config{Dialer: &network{}, PreferNoAuth: true})))
	say(t, c, 5, 2, 0, 2)
	hear(t, c, 5, 0)
}

// mapping is a network whose user has said what one address stands for.
type mapping struct {
	*network
	addr string
}

func (m mapping) Mapped(host string) bool { return host == m.addr }

// TestSafeSOCKSMapped: an address that stands for a host, by the user's word, is no sign of a
// lookup by the program.
func TestSafeSOCKSMapped(t *testing.T) {
	var log bytes.Buffer
	n := &network{hosts: map[string]string{"192.0.2.7": peer(t, echo)}}
	s := NewSOCKS(Config{Dialer: mapping{n, "192.0.2.7"}, SafeSOCKS: true, WarnUnsafe: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	port := start(t, s)
	for i, r := range unsafeRequests {
		want := [][]byte{{0, 90}, append([]byte{5, 0}, ok5...), r.deny}[i]
		c := dialTCP(t, port)
		say(t, c, r.say...)
		hear(t, c, want...)
		c.Close()
	}
	if got := n.requests(); len(got) != 2 {
		t.Errorf("%d requests reached the network", len(got))
	}
	s.Close()
	if strings.Count(log.String(), "level=WARN") != 1 {
		t.Error(log.String())
	}
}

// TestSafeSOCKSResolve: a lookup of an address, which a program asks of a port as it asks for connections, is
// refused as they are, and one of a name is not. A question about the name of an address is no sign
// of a lookup elsewhere.
func TestSafeSOCKSResolve(t *testing.T) {
	s := newServer("socks", Config{SafeSOCKS: true, Log: slog.New(slog.DiscardHandler)})
	for _, c := range []struct {
		cmd     byte
		literal bool
		ok      bool
	}{
		{cmdConnect, true, false}, {cmdConnect, false, true},
		{cmdResolve, true, false}, {cmdResolve, false, true},
		{cmdResolvePTR, true, true},
	} {
		if err := s.judge(command{version: 5, cmd: c.cmd, literal: c.literal}); (err == nil) != c.ok {
			t.Errorf("command %#x of an address: %v: %v", c.cmd, c.literal, err)
		}
	}
}
