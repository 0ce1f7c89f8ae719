package relay

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/stream"
)

// askPort returns a connection to a directory port of the server.
func askPort(t *testing.T, s *dirserver.Server) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestDirCache asks for documents that are in the cache and for others.
func TestDirCache(t *testing.T) {
	var own *netdoc.RouterDesc
	c := newDirCache(dirserver.Config{Log: slog.New(slog.DiscardHandler)}, func() *netdir.Directory { return nil }, func() *netdoc.RouterDesc { return own })
	text := []byte("onion-key\nntor-onion-key AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n")
	digest := sha256.Sum256(text)
	c.KeepMicrodesc(text)
	c.KeepConsensus([]byte("not a consensus"))

	ask := func(path string) string {
		client := askPort(t, c.server)
		if _, err := io.WriteString(client, "GET "+path+" HTTP/1.0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(client)
		if err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
	if got := ask("/tor/micro/d/" + base64.RawStdEncoding.EncodeToString(digest[:])); !strings.Contains(got, " 200 ") || !strings.HasSuffix(got, string(text)) {
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

// TestDirStreamsOfOneLink: the directory streams that a client opens without a
// request are bounded, on all its circuits together; another link and the DirPort
// still get answers.
func TestDirStreamsOfOneLink(t *testing.T) {
	const circuits, each = 10, 4
	const limit = circuits * each // of a link from an address that is known: four times a stranger's
	// On a busy machine, requests could time out before the last one is here.
	v := startVictim(t, func(cfg *Config) { cfg.dirTimeout, cfg.dirPerLink = time.Hour, limit/4 })
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
	for range circuits {
		c := u.circuit()
		for range each {
			s, err := stream.BeginDir(c.Last())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(s, "GET /"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for ctx := within(t); served.Requests.Load() < limit; {
		select {
		case <-ctx.Done():
			t.Fatalf("%d of %d requests came, %d are open", served.Requests.Load(), limit, served.Open.Load())
		case <-time.After(time.Millisecond):
		}
	}
	more, err := stream.BeginDir(u.circuit().Last())
	if err != nil {
		t.Fatal(err)
	}
	more.SetDeadline(time.Now().Add(60 * time.Second))
	var end *stream.EndError
	if _, err := more.Read(make([]byte, 1)); !errors.As(err, &end) || end.Reason != cell.EndResourceLimit {
		t.Errorf("one link has more than %d requests: %v", limit, err)
	}
	if got := ask(v.connect(t, nil).circuit()); !strings.Contains(got, " 404 ") {
		t.Errorf("another link: %q", got)
	}
	a := askPort(t, v.cache.server)
	go io.WriteString(a, "GET / HTTP/1.0\r\n\r\n")
	if answer, err := io.ReadAll(a); err != nil || !strings.Contains(string(answer), " 404 ") {
		t.Errorf("the other port: %.40q, %v", answer, err)
	}
}
