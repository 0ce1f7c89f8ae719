package relay

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
)

// TestDirCache asks for what was kept, and for what was not.
func TestDirCache(t *testing.T) {
	var own *netdoc.RouterDesc
	c := newDirCache(slog.New(slog.DiscardHandler), func() *netdir.Directory { return nil }, func() *netdoc.RouterDesc { return own })
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
