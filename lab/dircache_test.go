package lab_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/lab"
)

// TestDirectoryCacheRestart starts a relay again when there is nobody to ask: it
// serves what it has on its disk.
func TestDirectoryCacheRestart(t *testing.T) {
	nw := start(t, lab.Options{Relays: 2, Exits: 1, Authorities: 1, Relay: func(name string, cfg *chive.RelayConfig) {
		if name == "chiverelay0" {
			cfg.DirPort, cfg.CacheExtraInfo = "127.0.0.1:0", true
		}
	}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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
		all := get("/tor/server/all")
		for bytes.Count(all, []byte("\nrouter-signature\n")) < 3 {
			select {
			case <-ctx.Done():
				t.Fatalf("it serves no 3 descriptors: %.300s", all)
			case <-time.After(50 * time.Millisecond):
			}
			all = get("/tor/server/all")
		}
		for _, path := range []string{"/tor/status-vote/current/consensus", "/tor/status-vote/current/consensus-microdesc", "/tor/keys/all",
			"/tor/extra/fp/" + nw.Node("chiveexit0").Fingerprint} {
			if len(get(path)) == 0 {
				t.Errorf("no %s", path)
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
