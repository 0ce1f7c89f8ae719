package dirclient

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cert"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// shelf is a MirrorStore that remembers what it was given.
type shelf struct{ descs, extras map[[20]byte]bool }

func (s *shelf) Certs() []*netdoc.AuthCert     { return nil }
func (s *shelf) KeepConsensus([]byte)          {}
func (s *shelf) HasDescriptor(d [20]byte) bool { return s.descs[d] }
func (s *shelf) HasExtraInfo(d [20]byte) bool  { return s.extras[d] }
func (s *shelf) Listed(map[ident.RSAID]bool)   {}
func (s *shelf) KeepDescriptor(d *netdoc.RouterDesc, e *netdoc.ExtraInfo) {
	s.descs[d.Digest] = true
	if e != nil {
		s.extras[e.Digest] = true
	}
}

// signed makes a relay's descriptor and its extra-info document.
func signed(t *testing.T, now time.Time) (*netdoc.RouterDesc, *netdoc.ExtraInfo) {
	t.Helper()
	_, master, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signing, err := cert.GenerateExpanded(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	k := netdoc.DescKeys{Ed: cert.IdentityOf(master), Signing: signing}
	if k.Identity, err = rsa.GenerateKey(rand.Reader, 1024); err != nil {
		t.Fatal(err)
	}
	rand.Read(k.NtorSecret[:])
	keys := netdoc.NewDescKeys(k, cert.SignerOf(master), now.AddDate(0, 1, 0))
	e, err := (&netdoc.ExtraInfo{Nickname: "one", Published: now}).Sign(rand.Reader, keys, now)
	if err != nil {
		t.Fatal(err)
	}
	d, err := (&netdoc.RouterDesc{
		Nickname: "one", Addr: netip.MustParseAddr("192.0.2.1"), ORPort: 9001, Platform: "Chive", Proto: "Link=4-5", Published: now,
		BandwidthRate: 1, BandwidthBurst: 1, Policy: netdoc.ExitPolicy{{Ports: netdoc.AllPorts}}, HasExtraInfo: true, ExtraInfo: e.Digest, ExtraInfoSHA256: e.SHA256,
	}).Sign(rand.Reader, keys, now)
	if err != nil {
		t.Fatal(err)
	}
	return d, e
}

// TestMirrorAsksForExtraInfoAgain: a document that no cache had comes later, and
// one that no cache has is given up.
func TestMirrorAsksForExtraInfoAgain(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	late, lateExtra := signed(t, now)
	never, _ := signed(t, now)
	n := small(t, 10)
	w := newWorld(n)
	var there atomic.Bool
	w.fault = func(_ int, path string, out io.Writer) bool {
		var body []byte
		switch {
		case strings.HasPrefix(path, "/tor/server/d/"):
			body = append(append(body, late.Text...), never.Text...)
		case strings.HasPrefix(path, "/tor/extra/d/") && there.Load():
			body = lateExtra.Text
		default:
			return false // 404
		}
		fmt.Fprintf(out, "HTTP/1.0 200 OK\r\n\r\n%s", body)
		return true
	}
	s := &shelf{map[[20]byte]bool{}, map[[20]byte]bool{}}
	m := &Mirror{Client: New(Config{Network: n.Network, Dialer: w}), Store: s, ExtraInfo: true, current: &netdoc.Consensus{}}
	m.current.Routers = []netdoc.RouterStatus{{Descriptor: late.Digest}, {Descriptor: never.Digest}}

	if err := m.fetchDescriptors(t.Context(), m.missing()); err != nil || len(m.missing()) != 0 || len(m.owed) != 2 {
		t.Fatal(err, len(m.missing()), len(m.owed))
	}
	if m.fetchOwed(t.Context()); len(m.owed) != 2 {
		t.Fatal("nobody had them, and they are not asked for any more")
	}
	there.Store(true)
	if m.fetchOwed(t.Context()); !s.extras[lateExtra.Digest] || len(m.owed) != 1 || m.owed[never.Digest] == nil {
		t.Fatal(s.extras, len(m.owed))
	}
	for range extraTries - 1 {
		if len(m.owed) != 1 {
			t.Fatal("given up too early")
		}
		m.fetchOwed(t.Context())
	}
	if asked := w.count("/tor/extra/d/"); len(m.owed) != 0 || asked > Attempts*(extraTries+1) {
		t.Fatal(len(m.owed), asked)
	}
	// What the consensus names no longer is not asked for.
	m.owed = map[[20]byte]*owed{never.Digest: {desc: never}}
	m.current.Routers = nil
	before := w.count("/tor/extra/d/")
	if m.fetchOwed(t.Context()); len(m.owed) != 0 || w.count("/tor/extra/d/") != before {
		t.Fatal("asked for a document of the past")
	}
}
