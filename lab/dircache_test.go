package lab_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/relay"
)

// TestDirectoryCacheRestart restarts a relay when no authority or cache is there:
// it serves the documents on its disk.
func TestDirectoryCacheRestart(t *testing.T) {
	nw := start(t, lab.Options{Relays: 2, Exits: 1, Authorities: 1, Relay: func(name string, cfg *relay.Config) {
		if name == "chiverelay0" {
			cfg.DirPort, cfg.CacheExtraInfo = "127.0.0.1:0", true
		}
	}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n := nw.Node("chiverelay0")
	get := func(path string) []byte {
		res, err := http.Get("http://" + n.Relay().DirPort().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusOK {
			return nil
		}
		return b
	}
	documents := func() []byte {
		t.Helper()
		for path, want := range map[string]string{"/tor/server/all": "\nrouter-signature\n", "/tor/status-vote/current/consensus": "\ndirectory-signature ",
			"/tor/status-vote/current/consensus-microdesc": "\ndirectory-signature ", "/tor/keys/all": "\ndir-key-certification\n",
			"/tor/extra/fp/" + nw.Node("chiveexit0").Fingerprint: "\nrouter-signature\n"} {
			least := 1
			if path == "/tor/server/all" {
				least = 3
			}
			for text := get(path); bytes.Count(text, []byte(want)) < least; text = get(path) {
				select {
				case <-ctx.Done():
					t.Fatalf("%s is not served: %.300s", path, text)
				case <-time.After(50 * time.Millisecond):
				}
			}
		}
		return get("/tor/status-vote/current/consensus")
	}
	before := documents()
	if err := nw.Node("authority0").Stop(); err != nil {
		t.Fatal(err)
	}
	if err := n.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(documents(), before) {
		t.Error("another consensus after the restart")
	}
}
