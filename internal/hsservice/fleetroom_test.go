package hsservice

import (
	"crypto/ecdh"
	"crypto/rand"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// More hosts than the descriptor has room for: each that has a place has its share, and
// they do not fight.
func TestFleetFull(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		h, k := newShelf(t), key(t)
		var all []*Service
		for range 8 {
			all = append(all, h.join(t, Config{Key: k, Fleet: true}, 3))
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		h.published()
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if n := h.published() / 8; n > 16*8 {
			t.Errorf("%d uploads in half an hour and host", n)
		}
		for _, ids := range h.sees(t, k, nil) {
			if len(ids) != netdoc.MaxIntroPoints {
				t.Errorf("%d points", len(ids))
			}
			for i, s := range all {
				mine := pointIDs(s)
				n := 0
				for _, id := range ids {
					if slices.Contains(mine, id) {
						n++
					}
				}
				if n < 2 {
					t.Errorf("host %d has %d points", i, n)
				}
			}
		}
		for _, s := range all {
			kill(s)
		}
	})
}

// The descriptor of a fleet is not longer than directories accept, however many clients
// are authorized: then it names fewer points. The directories of the test check it.
func TestFleetLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, k := newShelf(t), key(t)
		alice, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{Key: k, Fleet: true}
		cfg.Clients = []ident.X25519Key{ident.X25519Key(alice.PublicKey().Bytes())}
		for range 240 {
			other, err := ecdh.X25519().GenerateKey(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Clients = append(cfg.Clients, ident.X25519Key(other.PublicKey().Bytes()))
		}
		a, b := h.join(t, cfg, 5), h.join(t, cfg, 5)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for _, s := range []*Service{a, b} {
			s.mu.Lock()
			for _, x := range s.descs {
				if x.view.Counted() > 5 {
					t.Errorf("%d descriptors are counted", x.view.Counted())
				}
			}
			s.mu.Unlock()
		}
		for _, ids := range h.sees(t, k, alice) {
			if len(ids) < 4 || len(ids) >= 10 {
				t.Errorf("%d points", len(ids))
			}
		}
		for _, s := range []*Service{a, b} {
			if err := s.Reload(Live{Clients: cfg.Clients[:1], IntroductionPoints: 5}); err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			for _, p := range s.points {
				p.renew, p.revoked, p.epoch = false, time.Time{}, s.epoch // there are no circuits to new ones here
			}
			s.mu.Unlock()
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for _, ids := range h.sees(t, k, alice) {
			if len(ids) != 10 {
				t.Errorf("with one client: %d points", len(ids))
			}
		}
		kill(a)
		kill(b)
	})
}
