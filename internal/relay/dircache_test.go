package relay

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/stream"
)

// TestDirCache asks for what was kept, and for what was not.
func TestDirCache(t *testing.T) {
	var own *netdoc.RouterDesc
	c := newDirCache(dirserver.Config{Log: slog.New(slog.DiscardHandler)}, func() *netdir.Directory { return nil }, func() *netdoc.RouterDesc { return own })
	text := []byte("onion-key\nntor-onion-key AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n")
	want := bytes.Clone(text)
	digest := sha256.Sum256(text)
	c.KeepMicrodesc(text)
	clear(text) // it was part of a buffer that is used again
	c.KeepConsensus([]byte("not a consensus"))

	ask := func(path string) string {
		client, server := net.Pipe()
		defer client.Close()
		go c.serve(server)
		if _, err := io.WriteString(client, "GET "+path+" HTTP/1.0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(client)
		if err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
	if got := ask("/tor/micro/d/" + base64.RawStdEncoding.EncodeToString(digest[:])); !strings.Contains(got, " 200 ") || !strings.HasSuffix(got, string(want)) {
		t.Errorf("a microdescriptor that was kept: %q", got)
	}
	for _, path := range []string{"/tor/status-vote/current/consensus-microdesc", "/tor/micro/d/" + strings.Repeat("A", 43), "/tor/server/all", "/tor/server/authority"} {
		if got := ask(path); !strings.Contains(got, " 404 ") {
			t.Errorf("%s: %q, want 404", path, got)
		}
	}
	own = &netdoc.RouterDesc{Text: []byte("router x\n")}
	if got := ask("/tor/server/authority"); !strings.Contains(got, " 200 ") || !strings.HasSuffix(got, "router x\n") {
		t.Errorf("its own descriptor: %q", got)
	}
}

// TestDirStreamsOfOneLink: a client that opens directory streams and asks for
// nothing is refused more, on all its circuits together; another link and the
// DirPort find room.
func TestDirStreamsOfOneLink(t *testing.T) {
	const limit = 5
	v := startVictim(t, func(c *Config) { c.Dir = nil }, func(r *Relay) {
		r.cache.server = dirserver.New(dirserver.Config{Docs: &r.cache.docs, MaxConns: 100, MaxPerAddr: 4 * limit, MaxPerLink: limit})
	})
	ask := func(c *circuit.Circuit) string {
		s, err := stream.BeginDir(c.Last())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.SetDeadline(time.Now().Add(60 * time.Second))
		if _, err := io.WriteString(s, "GET /nothing HTTP/1.0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
	u := v.connect(t, nil)
	served := v.cache.server.Stats()
	for range limit {
		s, err := stream.BeginDir(u.circuit().Last())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(s, "GET /"); err != nil {
			t.Fatal(err)
		}
	}
	for served.Requests.Load() < limit {
		runtime.Gosched()
	}
	if got := ask(u.circuit()); !strings.Contains(got, " 503 ") {
		t.Errorf("one link has more than %d requests: %.40q", limit, got)
	}
	if got := ask(v.connect(t, nil).circuit()); !strings.Contains(got, " 404 ") || !strings.Contains(got, "X-Your-Address-Is: 127.0.0.1") {
		t.Errorf("another link: %q", got)
	}
	a, b := net.Pipe()
	defer a.Close()
	go v.cache.server.ServeConn(t.Context(), b, dirserver.Peer{Addr: netip.MustParseAddr("192.0.2.1")})
	go io.WriteString(a, "GET / HTTP/1.0\r\n\r\n")
	if answer, err := io.ReadAll(a); err != nil || !strings.Contains(string(answer), " 404 ") {
		t.Errorf("the other door: %.40q, %v", answer, err)
	}
}
