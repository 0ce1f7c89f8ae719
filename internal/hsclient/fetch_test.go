package hsclient

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// TestRead: what a directory sends is believed only when it is this service's.
func TestRead(t *testing.T) {
	now := time.Now()
	s, other := newService(t), newService(t)
	c := newClient(t, &fakeNet{})
	got, err := c.read(s.descriptor(t, now), &s.service, now)
	if err != nil || got.revision != 7 || got.blinded != s.blinded || len(got.inner.Points) != 1 || !got.expires.Equal(now.Add(netdoc.HSLifetime)) {
		t.Fatal(got, err)
	}
	bad := func(name string, doc []byte, want error) {
		t.Helper()
		if _, err := c.read(doc, &s.service, now); !errors.Is(err, want) || fault.KindOf(err) == fault.Unknown {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad("nothing", nil, ErrBadDescriptor)
	bad("another service's", other.descriptor(t, now), ErrBadDescriptor)
	// Who knows the address can write what opens with its secret, under a key of their own.
	forged, err := netdoc.EncodeHSDescriptor(rand.Reader, &netdoc.HSKeys{Blinded: other.key, Subcredential: s.subcredential}, 7, &s.inner, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := forged.Open(s.subcredential, nil); err != nil {
		t.Fatal(err)
	}
	bad("under a foreign key", forged.Text, ErrBadDescriptor)
	bad("an old one", s.descriptor(t, now.Add(-100*time.Hour)), ErrBadDescriptor)
	flipped := s.descriptor(t, now)
	flipped[len(flipped)/2] ^= 1
	bad("a flipped bit", flipped, ErrBadDescriptor)
	mine, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	strangers, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret := s.descriptor(t, now, ident.X25519Key(mine.PublicKey().Bytes()))
	bad("no key", secret, ErrNeedsAuth)
	c.cfg.Keys = func() Keys { return Keys{s.id: strangers} }
	bad("a wrong key", secret, ErrBadAuth)
	c.cfg.Keys = func() Keys { return Keys{s.id: mine} }
	if _, err := c.read(secret, &s.service, now); err != nil {
		t.Error(err)
	}
	c.cfg.Keys = func() Keys { return nil }
	bad("a key that was removed", secret, ErrNeedsAuth)
	s.inner.Points = nil
	bad("no introduction point", s.descriptor(t, now), ErrBadDescriptor)
}

// TestEachDirectoryOnce: all responsible directories are asked, none of them twice,
// and no excluded one; for a newer descriptor, none that was asked lately.
func TestEachDirectoryOnce(t *testing.T) {
	s := newService(t)
	d := madeNet()
	f := &fakeNet{refused: map[ident.RSAID]bool{}}
	c := newClient(t, f)
	dirs := d.HSFetchRing(d.HSTimes(false)).Responsible(s.blinded, 2, 3)
	if len(dirs) != 6 {
		t.Fatal(len(dirs))
	}
	excluded := dirs[2].RSA()
	f.refused[excluded] = true
	if _, err := c.descriptor(t.Context(), c.history(s.id), nil); !errors.Is(err, ErrNoDescriptor) || !errors.Is(err, errNoCircuit) {
		t.Error(err)
	}
	seen := map[ident.RSAID]int{}
	for _, id := range f.to {
		seen[id]++
	}
	if len(f.to) != 5 || len(seen) != 5 || seen[excluded] != 0 {
		t.Errorf("asked %d times, %d directories", len(f.to), len(seen))
	}
	for _, r := range dirs {
		if r.RSA() != excluded && seen[r.RSA()] != 1 {
			t.Error("a responsible directory was not asked")
		}
	}
	stale := &cached{blinded: s.blinded, inner: &s.inner, revision: 1, expires: time.Now().Add(time.Hour)}
	if _, err := c.descriptor(t.Context(), c.history(s.id), stale); !errors.Is(err, ErrNoDescriptor) || len(f.to) != 5 {
		t.Error(err, len(f.to))
	}
	c.keep(stale, 0)
	if got, err := c.descriptor(t.Context(), c.history(s.id), nil); err != nil || got != stale {
		t.Error(got, err)
	}
	c.NewIdentity()
	if c.keep(stale, 0); c.kept(s.blinded, c.epoch) != nil {
		t.Error("a descriptor of before the new identity is kept")
	}
	if _, err := c.descriptor(t.Context(), c.history(s.id), nil); err == nil || len(f.to) != 10 {
		t.Error(err, len(f.to))
	}
}

// TestServiceComesBack: a client that has asked all directories while the service was away
// asks them again soon, less and less often, and from the start when it got there.
func TestServiceComesBack(t *testing.T) {
	s := newService(t)
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNet{}
		c := newClient(t, f)
		stale := &cached{blinded: s.blinded, inner: &s.inner, revision: 1}
		// rounds counts how often all directories are asked by somebody who asks every second.
		rounds := func(seconds int) int {
			f.to = nil
			for range seconds {
				if _, err := c.descriptor(t.Context(), c.history(s.id), stale); !errors.Is(err, ErrNoDescriptor) {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			if len(f.to)%6 != 0 {
				t.Errorf("%d questions", len(f.to))
			}
			return len(f.to) / 6
		}
		if n := rounds(10); n != 3 {
			t.Errorf("asked %d times in ten seconds", n)
		}
		if n := rounds(590); n < 10 || n > 13 {
			t.Errorf("asked %d times in the rest of ten minutes", n)
		}
		c.forgetAsked(s.blinded)
		if n := rounds(10); n != 3 {
			t.Errorf("asked %d times in ten seconds after a success", n)
		}
	})
}

// TestLongLifetime: a descriptor is kept for no longer than directories keep one, whatever its
// service says.
func TestLongLifetime(t *testing.T) {
	now := time.Now()
	s := newService(t)
	var read bytes.Buffer // what the descriptor is made of: first, the seed of the key that signs it
	d, err := netdoc.EncodeHSDescriptor(io.TeeReader(rand.Reader, &read), &netdoc.HSKeys{Blinded: s.key, Subcredential: s.subcredential}, 7, &s.inner, now)
	if err != nil {
		t.Fatal(err)
	}
	signing := ed25519.NewKeyFromSeed(read.Bytes()[:ed25519.SeedSize])
	doc := bytes.Replace(d.Text, []byte("descriptor-lifetime 180\n"), []byte("descriptor-lifetime 720\n"), 1)
	doc = doc[:bytes.LastIndex(doc, []byte("signature "))]
	sig := ed25519.Sign(signing, append([]byte("Tor onion service descriptor sig v3"), doc...))
	doc = append(doc, "signature "+base64.RawStdEncoding.EncodeToString(sig)+"\n"...)
	got, err := newClient(t, &fakeNet{}).read(doc, &s.service, now)
	if err != nil {
		t.Fatal(err)
	}
	if keep := got.expires.Sub(now); keep != netdoc.HSLifetime {
		t.Errorf("it is kept for %v", keep)
	}
}
