package dirserver

import (
	"net/netip"
	"testing"
	"time"
)

// TestHeadLikeCtor: the headers are C tor's, in its order, and a short answer has the date alone.
func TestHeadLikeCtor(t *testing.T) {
	s := New(Config{Now: func() time.Time { return when }})
	date := when.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")
	peer := Peer{Addr: netip.MustParseAddr("192.0.2.7")}
	res := OK([]byte("x"), time.Hour)
	res.Header = []string{"Vary: X-Or-Diff-From-Consensus"}
	expires := "Expires: " + when.Add(time.Hour).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT") + "\r\n"
	for want, got := range map[string][]byte{
		"HTTP/1.0 200 OK\r\nDate: " + date + "\r\nContent-Type: text/plain\r\nX-Your-Address-Is: 192.0.2.7\r\nContent-Encoding: identity\r\n" +
			"Content-Length: 1\r\n" + expires + "Vary: X-Or-Diff-From-Consensus\r\n\r\n": s.head(peer, res, 1, ""),
		"HTTP/1.0 200 OK\r\nDate: " + date + "\r\nContent-Type: text/plain\r\nContent-Encoding: x-zstd\r\n" + expires +
			"Vary: X-Or-Diff-From-Consensus\r\n\r\n": s.head(Peer{Addr: peer.Addr, MultiHop: true}, res, -1, "x-zstd"),
		"HTTP/1.0 404 Not found\r\nDate: " + date + "\r\n\r\n": s.head(peer, Short(404, "Not found"), 0, ""),
	} {
		if string(got) != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
