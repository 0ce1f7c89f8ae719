package client

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// TestReadyByBridge: a client need not know many guards once its bridge works.
func TestReadyByBridge(t *testing.T) {
	n, err := dirgen.New(dirgen.Options{Relays: 100, ValidAfter: time.Now().Add(-time.Minute).UTC().Truncate(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := n.Directory()
	if err != nil {
		t.Fatal(err)
	}
	// As many microdescriptors as are enough by a bridge alone, the exits' first.
	relays := slices.SortedStableFunc(whole.All(), func(a, b netdir.Relay) int {
		return int(b.Flags()&netdir.FlagExit) - int(a.Flags()&netdir.FlagExit)
	})
	var some []byte
	for _, r := range relays {
		some = append(some, n.ByDigest[r.MicrodescDigest()]...)
		var l netdir.Loader
		d, _, err := l.Consensus(n.Consensus, nil)
		if err == nil {
			d, _, err = l.Microdescs(d, some, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		if d.Enough(false) {
			t.Fatalf("this network has no such directory: %+v", d.Usability())
		}
		if d.Enough(true) {
			break
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{"consensus-microdesc": n.Consensus, "certs": n.Certs, "microdescs": some} {
		if err := os.WriteFile(filepath.Join(dir, "directory", file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	desc := bridgeDesc(t, time.Now())
	silent := func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) { // one that refuses would be down again
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	c, err := New(Config{Network: n.Network, Dir: dir, Dial: silent, Live: Live{Bridges: bridgeLines(t, "192.0.2.1:443 "+desc.RSA.String())}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for changed := c.dirs.Changed(); c.dirs.Directory() == nil; changed = c.dirs.Changed() {
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatal("there is no directory")
		}
	}
	if c.dirs.Ready(c.dirs.Directory(), time.Now()) || c.pool.Load() != nil {
		t.Error("it is ready before a bridge has answered")
	}
	use, err := c.guards.PickBridge(desc.RSA, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	use.Succeeded(time.Now())
	b := c.bridge.all[0]
	c.bridge.mu.Lock()
	b.desc, b.id.Ed = desc, desc.Ed
	c.bridge.mu.Unlock()
	c.bridge.publish()
	c.bridge.tell()
	select {
	case <-c.poolReady:
	case <-ctx.Done():
		t.Error("it is not ready though its bridge works")
	}
}
