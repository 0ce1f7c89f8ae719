package relay

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// TestPublishWhileAnAuthorityIsDown: a descriptor is replaced in time also while an authority
// does not take the present one: the others stop listing a relay whose descriptor is old.
func TestPublishWhileAnAuthorityIsDown(t *testing.T) {
	publishing(t, nil, func(t *testing.T, r *Relay) {
		first := r.desc.Load()
		time.Sleep(republish + uploadRetryMax + 2*time.Minute)
		synctest.Wait()
		if r.desc.Load() == first {
			t.Error("the descriptor was not replaced")
		}
	})
}

// publishing runs the publisher of a relay whose one authority is down, and calls
// then after the first descriptor.
func publishing(t *testing.T, directory func(*Relay) *netdir.Directory, then func(*testing.T, *Relay)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{
			Nickname: "relay", DataDir: dir, Log: quiet, Advertise: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:9001")},
			Network: &netdir.Network{Authorities: []netdir.Authority{{Nickname: "down"}}}, // without any address
		}
		r := &Relay{cfg: cfg, log: quiet, keys: load(t, dir, time.Now()), started: time.Now(), dirs: dirclient.New(dirclient.Config{Network: cfg.Network, Log: quiet})}
		r.live.Store(&live{cfg: cfg, family: &family{}})
		r.publisher = newPublisher(r)
		if directory != nil {
			r.publisher.directory = func() *netdir.Directory { return directory(r) }
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.publisher.run(ctx); close(done) }()
		synctest.Wait()
		if r.desc.Load() == nil {
			t.Fatal("no descriptor was made")
		}
		then(t, r)
		cancel()
		<-done
	})
}

// TestPublishFirstBandwidth: the first descriptor of a new relay says that it has no
// bandwidth, and no client uses it. What it measures soon after goes out at once, and later
// changes after a while.
func TestPublishFirstBandwidth(t *testing.T) {
	publishing(t, nil, func(t *testing.T, r *Relay) {
		var total uint64
		grow := func(n uint64) {
			r.bandwidth.sample(time.Now(), total, total)
			time.Sleep(time.Second)
			total += n
			r.bandwidth.sample(time.Now(), total, total)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
		}
		grow(1e6)
		if got := r.desc.Load().BandwidthObserved; got != 1e5 {
			t.Fatalf("two minutes later the descriptor says %d bytes a second", got)
		}
		grow(1e7)
		if got := r.desc.Load().BandwidthObserved; got != 1e5 {
			t.Fatalf("another change was published at once: %d bytes a second", got)
		}
		time.Sleep(bandwidthHold + uploadRetryMax)
		synctest.Wait()
		if got := r.desc.Load().BandwidthObserved; got != 1e6 {
			t.Fatalf("later the descriptor says %d bytes a second", got)
		}
	})
}

// TestPublishUnlisted: a relay that the consensus does not list makes a new descriptor after
// 90 minutes. The authorities may have refused or lost the last one.
func TestPublishUnlisted(t *testing.T) {
	made, err := dirgen.New(dirgen.Options{Relays: 3, Authorities: 1, Interval: 10000 * time.Hour, ValidAfter: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := made.Directory()
	if err != nil {
		t.Fatal(err)
	}
	for _, listed := range []bool{false, true} {
		publishing(t, func(r *Relay) *netdir.Directory {
			if listed {
				r.keys.ID.RSA = d.Relay(0).RSA()
			}
			return d
		}, func(t *testing.T, r *Relay) {
			first := r.desc.Load()
			time.Sleep(relist - 2*time.Minute)
			synctest.Wait()
			if r.desc.Load() != first {
				t.Error("replaced too early")
			}
			time.Sleep(uploadRetryMax + 4*time.Minute)
			synctest.Wait()
			if (r.desc.Load() == first) != listed {
				t.Errorf("listed: %v, replaced: %v", listed, r.desc.Load() != first)
			}
		})
	}
}

// TestPublishTAPKey: the descriptor has a TAP key until the consensus says that it shall
// have none.
func TestPublishTAPKey(t *testing.T) {
	for _, c := range []struct {
		params netdoc.Params
		want   bool
	}{{nil, true}, {netdoc.Params{{Name: "publish-dummy-tap-key", Value: 1}}, true}, {netdoc.Params{{Name: "publish-dummy-tap-key", Value: 0}}, false}} {
		made, err := dirgen.New(dirgen.Options{Relays: 3, Authorities: 1, Params: c.params})
		if err != nil {
			t.Fatal(err)
		}
		d, err := made.Directory()
		if err != nil {
			t.Fatal(err)
		}
		var have atomic.Pointer[netdir.Directory] // none at first
		publishing(t, func(*Relay) *netdir.Directory { return have.Load() }, func(t *testing.T, r *Relay) {
			if r.desc.Load().OnionKey == nil {
				t.Error("no TAP key before the first consensus")
			}
			have.Store(d)
			time.Sleep(republish + uploadRetryMax + 2*time.Minute)
			synctest.Wait()
			if got := r.desc.Load().OnionKey != nil; got != c.want {
				t.Errorf("%v: a TAP key: %v", c.params, got)
			}
		})
	}
}

// TestPublishFamilyCertificates: authorities take a descriptor whose family certificate has
// expired for expired, so a relay publishes new ones long before, week after week, though
// nothing else of it changes.
func TestPublishFamilyCertificates(t *testing.T) {
	publishing(t, nil, func(t *testing.T, r *Relay) {
		if _, err := MakeFamilyKey(r.keys.dir.path("mine")); err != nil {
			t.Fatal(err)
		}
		fam, err := loadFamily(r.keys.dir, r.keys.ID.RSA, nil, []string{allFamilies})
		if err != nil {
			t.Fatal(err)
		}
		r.live.Store(&live{cfg: r.cfg, family: fam})
		r.publisher.changed()
		const step, spare = 12 * time.Hour, 6 * 24 * time.Hour // the signing key is renewed a week before its end
		for range 33 * 24 * time.Hour / step {
			// A signing key's certificate is renewed by others.
			if _, err := r.keys.Renew(time.Now(), maxRotation, maxRotation); err != nil {
				t.Fatal(err)
			}
			time.Sleep(step)
			synctest.Wait()
			n := 0
			netdoc.ParseRouterDescs(r.desc.Load().Text, time.Now().Add(spare), func(d *netdoc.RouterDesc, err error) {
				if err != nil || len(d.FamilyIDs) != 1 {
					t.Fatalf("%v: %v", time.Now(), err)
				}
				n++
			})
			if n != 1 {
				t.Fatalf("%d descriptors", n)
			}
		}
	})
}
