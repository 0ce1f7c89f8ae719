package hsclient

import (
	"log/slog"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// TestDescriptorsAreCounted: descriptors that are kept are on the account of memory until
// they are dropped, and make room when it is full.
func TestDescriptorsAreCounted(t *testing.T) {
	m := account.New(1 << 20)
	c := New(Config{Log: slog.New(slog.DiscardHandler), Memory: m})
	put := func(n byte) *cached {
		d := &cached{inner: new(netdoc.HSInner), blinded: ident.Ed25519ID{n}, expires: time.Now().Add(time.Hour), size: 50_000}
		c.keep(d, c.epoch)
		return d
	}
	one := put(1)
	put(2)
	if m.Used() != 100_000 {
		t.Errorf("two descriptors are %d bytes", m.Used())
	}
	put(2) // a newer one
	if m.Used() != 100_000 {
		t.Errorf("a newer descriptor makes %d bytes", m.Used())
	}
	c.evict(one)
	c.evict(one)
	if c.kept(one.blinded, c.epoch) != nil || m.Used() != 50_000 {
		t.Errorf("%d bytes after one was evicted", m.Used())
	}
	for n := range 250 {
		put(byte(n))
	}
	if most := int64(maxCached * 50_000); m.Used() > most {
		t.Errorf("%d bytes", m.Used())
	}
	c.NewIdentity()
	if m.Used() != 0 {
		t.Errorf("%d bytes after a new identity", m.Used())
	}
	put(3)
	c.Close()
	if m.Used() != 0 {
		t.Errorf("%d bytes at the end", m.Used())
	}
}

// TestNewestIsKept: of two descriptors that streams fetched at the same time, the newer
// one is kept, whichever directory answers last.
func TestNewestIsKept(t *testing.T) {
	c := New(Config{Network: &fakeNet{}, Log: slog.New(slog.DiscardHandler)})
	defer c.Close()
	desc := func(revision uint64) *cached {
		return &cached{blinded: ident.Ed25519ID{1}, revision: revision, expires: time.Now().Add(time.Hour)}
	}
	for _, revision := range []uint64{1, 3, 2} {
		c.keep(desc(revision), c.epoch)
	}
	if got := c.kept(ident.Ed25519ID{1}, c.epoch); got == nil || got.revision != 3 {
		t.Errorf("%+v is kept", got)
	}
}
