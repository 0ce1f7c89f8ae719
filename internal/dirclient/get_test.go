package dirclient

import (
	"net/netip"
	"testing"
)

// TestAnonymous: the heads are C tor's (directory_send_command), as its own clients and
// services sent them to a directory that wrote them down.
func TestAnonymous(t *testing.T) {
	to := netip.MustParseAddrPort("192.0.2.1:9001")
	for want, got := range map[string][]byte{
		"GET /tor/hs/3/KEY HTTP/1.0\r\nHost: 192.0.2.1:9001\r\n\r\n":                           Anonymous("GET", "/tor/hs/3/KEY", to),
		"GET / HTTP/1.0\r\nHost: 192.0.2.1\r\n\r\n":                                            Anonymous("GET", "/", netip.AddrPortFrom(to.Addr(), 80)),
		"POST /tor/hs/3/publish HTTP/1.0\r\nHost: 192.0.2.1:9001\r\nContent-Length: 7\r\n\r\n": Anonymous("POST", "/tor/hs/3/publish", to, "Content-Length: 7"),
	} {
		if string(got) != want {
			t.Errorf("%q instead of %q", got, want)
		}
	}
}
