package relay

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// TestAdvertisesOnions: a relay with a directory offers to keep onion services'
// descriptors, and every relay to be their introduction and rendezvous point.
func TestAdvertisesOnions(t *testing.T) {
	for _, noDir := range []bool{false, true} {
		v := startVictim(t, func(c *Config) { c.NoDir = noDir })
		d, _, err := v.describe(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		proto, err := protover.Parse(d.Proto)
		if err != nil {
			t.Fatal(err)
		}
		if d.HSDir == noDir || proto.Has(protover.HSDir, 2) == noDir || strings.Contains(string(d.Text), "\nhidden-service-dir\n") == noDir {
			t.Errorf("without a directory %v: hidden-service-dir %v, %s", noDir, d.HSDir, d.Proto)
		}
		for _, p := range []struct {
			name    string
			version int
		}{{"HSIntro", 4}, {"HSIntro", 5}, {"HSRend", 2}} {
			if !proto.Has(p.name, p.version) {
				t.Errorf("%s=%d is missing in %s", p.name, p.version, d.Proto)
			}
		}
		reg := new(metrics.Registry)
		v.Register(reg)
		var out strings.Builder
		if err := reg.WritePrometheus(&out); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"chive_relay_introduction_points 0", "chive_relay_rendezvous_total 0"} {
			if !strings.Contains(out.String(), name) {
				t.Errorf("the metrics lack %q", name)
			}
		}
		if strings.Contains(out.String(), "chive_relay_onion_descriptors 0") == noDir {
			t.Errorf("without a directory %v: the metrics do not fit", noDir)
		}
	}
}

// TestKeepsOnions: the relay's directory takes descriptors of onion services, as large
// as the consensus lets them be, and no other uploads.
func TestKeepsOnions(t *testing.T) {
	mem := account.New(100 << 20)
	c := newDirCache(dirserver.Config{Log: slog.New(slog.DiscardHandler), Memory: mem}, func() *netdir.Directory { return nil }, func() *netdoc.RouterDesc { return nil })
	if a, b := c.maxUpload(dirserver.HSPublishPath), c.maxUpload("/tor/"); a != netdoc.MaxHSDescriptor || b != 0 {
		t.Errorf("uploads of %d and %d bytes", a, b)
	}
	key, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	d, err := netdoc.EncodeHSDescriptor(rand.Reader, &netdoc.HSKeys{Blinded: key}, 1, &netdoc.HSInner{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	peer := dirserver.Peer{Addr: netip.MustParseAddr("192.0.2.9"), Tunnelled: true, MultiHop: true}
	ask := func(method, path string, body []byte) *dirserver.Response {
		return c.extra(context.Background(), peer, &dirserver.Request{Method: method, Path: path, Body: body})
	}
	if r := ask("POST", dirserver.HSPublishPath, d.Text); r.Status != 200 {
		t.Errorf("upload: %d %s", r.Status, r.Reason)
	}
	if r := ask("GET", "/tor/hs/3/"+base64.RawStdEncoding.EncodeToString(d.Blinded[:]), nil); r.Status != 200 || string(r.Parts[0].Bytes()) != string(d.Text) {
		t.Errorf("download: %d %s", r.Status, r.Reason)
	}
	if r := ask("GET", "/tor/server/authority", nil); r == nil || r.Status != 404 {
		t.Errorf("the relay's own descriptor: %+v", r)
	}
	if r := ask("GET", "/tor/keys/all", nil); r != nil {
		t.Errorf("not for this: %+v", r)
	}
}
