package dirclient

import (
	"io"
	"net/netip"
	"strings"
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

// conversation is a stream on which a directory answers at once.
type conversation struct {
	strings.Builder
	io.Reader
}

// TestPost: a document goes out as it is, and the status comes back, whatever is with it.
func TestPost(t *testing.T) {
	to := netip.MustParseAddrPort("192.0.2.1:9001")
	for answer, want := range map[string]int{"HTTP/1.0 200 OK\r\n\r\n": 200, "HTTP/1.0 200 OK\r\n\r\nthanks": 200, "HTTP/1.0 400 Bad\r\n\r\n": 400, "bla": 0} {
		c := &conversation{Reader: strings.NewReader(answer)}
		status, err := Post(c, to, "/tor/hs/3/publish", []byte("the text"))
		if status != want || (err != nil) != (want == 0) {
			t.Errorf("%q: %d %v", answer, status, err)
		}
		if got := c.String(); got != "POST /tor/hs/3/publish HTTP/1.0\r\nHost: 192.0.2.1:9001\r\nContent-Length: 8\r\n\r\nthe text" {
			t.Errorf("%q", got)
		}
	}
}
