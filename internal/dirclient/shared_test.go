package dirclient

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
)

// texts is a Keeper that counts microdescriptors.
type texts struct {
	mu    sync.Mutex
	micro int // guarded by mu
}

func (k *texts) KeepConsensus([]byte)         {}
func (k *texts) KeepCerts([]*netdoc.AuthCert) {}
func (k *texts) KeepMicrodesc([]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.micro++
}

// TestShared: clients that share documents fetch each microdescriptor a few times together, and each one gets all; one
// that shares nothing fetches all.
func TestShared(t *testing.T) {
	n := small(t, 300)
	for _, shared := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(n.ValidAfter.Add(time.Minute)))
			w := newWorld(n)
			var s netdir.Shared
			const clients = 20
			var keepers [clients]texts
			var all [clients]*Client
			for i := range all {
				cfg := Config{Network: n.Network, Dialer: w, Keeper: &keepers[i]}
				if shared {
					cfg.Shared = &s
				}
				all[i] = New(cfg)
				defer run(t, all[i])()
			}
			for i, c := range all {
				wait(t, c)
				synctest.Wait()
				d := c.Directory()
				keepers[i].mu.Lock()
				if len(d.MissingMicrodescs()) != 0 || keepers[i].micro != d.Len() {
					t.Errorf("client %d lacks %d microdescriptors, and keeps %d of %d", i, len(d.MissingMicrodescs()), keepers[i].micro, d.Len())
				}
				keepers[i].mu.Unlock()
			}
			if asked := w.count("/tor/micro/"); shared != (asked <= 3*4) { // 300 are 4 requests, and three clients fetch at a time
				t.Errorf("shared: %v, %d requests", shared, asked)
			}
		})
	}
}

// TestSharedMirrors: a mirror takes the descriptors that another one has fetched and verified.
func TestSharedMirrors(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	d, _ := signed(t, now)
	n := small(t, 10)
	w := newWorld(n)
	w.fault = func(_ int, path string, out io.Writer) bool {
		if !strings.HasPrefix(path, "/tor/server/d/") {
			return false
		}
		fmt.Fprintf(out, "HTTP/1.0 200 OK\r\n\r\n%s", d.Text)
		return true
	}
	var s netdir.Shared
	for i := range 3 {
		store := &shelf{map[[20]byte]bool{}, map[[20]byte]bool{}}
		m := &Mirror{Client: New(Config{Network: n.Network, Dialer: w, Shared: &s}), Store: store, current: &netdoc.Consensus{}}
		m.current.Routers = []netdoc.RouterStatus{{Descriptor: d.Digest}}
		if err := m.fetchDescriptors(t.Context(), m.missing()); err != nil || !store.descs[d.Digest] {
			t.Fatal(i, err)
		}
		if asked := w.count("/tor/server/d/"); asked != 1 {
			t.Errorf("mirror %d: %d requests", i, asked)
		}
	}
}
