package relay

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/netdir"
)

// TestPublishWhileAnAuthorityIsDown: a descriptor is replaced in time also while an authority
// does not take the present one: the others stop listing a relay whose descriptor is old.
func TestPublishWhileAnAuthorityIsDown(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{
			Nickname: "relay", DataDir: dir, Log: quiet, Advertise: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:9001")},
			Network: &netdir.Network{Authorities: []netdir.Authority{{Nickname: "down"}}}, // without any address
		}
		r := &Relay{cfg: cfg, log: quiet, keys: load(t, dir, time.Now()), started: time.Now(), dirs: dirclient.New(dirclient.Config{Network: cfg.Network, Log: quiet})}
		r.live.Store(&live{cfg: cfg, family: &family{}})
		r.publisher = newPublisher(r)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.publisher.run(ctx); close(done) }()
		synctest.Wait()
		first := r.desc.Load()
		if first == nil {
			t.Fatal("no descriptor was made")
		}
		time.Sleep(republish + uploadRetryMax + 2*time.Minute)
		synctest.Wait()
		if r.desc.Load() == first {
			t.Error("the descriptor was not replaced")
		}
		cancel()
		<-done
	})
}
