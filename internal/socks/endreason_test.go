package socks

import (
	"io"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// TestEndWithoutReason: a stream or a lookup that ended with the reason zero, or with one that
// nobody knows, is a failure on every port: zero is also SOCKS 5's code for success.
func TestEndWithoutReason(t *testing.T) {
	for _, reason := range []cell.EndReason{0, cell.EndNotDirectory + 1, 200, 255} {
		n := &network{fail: map[string]error{"host.test": fault.New(fault.Network, "dial: %w", endOf(reason))}}
		for name, extended := range map[string]bool{"plain": false, "extended": true} {
			port := start(t, NewSOCKS(Config{Dialer: n, ExtendedErrors: extended}))
			for _, cmd := range []byte{1, 0xF0} {
				c := dialTCP(t, port)
				say(t, c, 5, 1, 0)
				hear(t, c, 5, 0)
				say(t, c, request5(cmd, "host.test", 80)...)
				if got, err := io.ReadAll(c); err != nil || len(got) != 10 || got[1] != rep5General {
					t.Errorf("SOCKS 5, %s, command %#x, reason %d: %x, %v", name, cmd, reason, got, err)
				}
			}
			c := dialTCP(t, port)
			say(t, c, append([]byte{4, 1, 0, 80, 0, 0, 0, 1, 0}, "host.test\x00"...)...)
			hear(t, c, 0, rep4Rejected)
		}
		c := dialTCP(t, start(t, NewHTTP(Config{Dialer: n})))
		say(t, c, []byte("CONNECT host.test:80 HTTP/1.1\r\nHost: x\r\n\r\n")...)
		if got, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(got), "HTTP/1.0 500 ") {
			t.Errorf("HTTP, reason %d: %q, %v", reason, got, err)
		}
		udp := startUDP(t, NewDNS(Config{Dialer: n}))
		if m := exchange(t, udp, ask(t, "host.test.", dnsmessage.TypeA)); m.RCode != dnsmessage.RCodeServerFailure || len(m.Answers) != 0 {
			t.Errorf("DNS, reason %d: %v, %v", reason, m.RCode, m.Answers)
		}
	}
}
