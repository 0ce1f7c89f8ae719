package hsservice

import (
	"crypto/ecdh"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/hsfleet"
	"github.com/chivenet/chive/internal/ident"
)

// Hosts that start at the same time end with one descriptor that names the points of
// all, stop to disagree, and then publish only so often that each one's entry is fresh.
func TestFleetConverges(t *testing.T) {
	for _, hosts := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			if hosts > 2 {
				long(t)
			}
			synctest.Test(t, func(t *testing.T) {
				h, k := newShelf(t), key(t)
				var all []*Service
				for range hosts {
					all = append(all, h.join(t, Config{Key: k, Fleet: true}, 3))
				}
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				h.expect(t, "after ten minutes", k, all...)
				t.Logf("%d uploads in the first ten minutes", h.published())
				time.Sleep(time.Hour)
				synctest.Wait()
				h.expect(t, "after an hour", k, all...)
				per := float64(h.published()) / float64(hosts)
				t.Logf("%.0f uploads an hour and host", per)
				if most := 1.5 * 16 * float64(time.Hour/hsfleet.RefreshMin); per > most {
					t.Errorf("%.0f uploads an hour and host, more than %.0f", per, most)
				}
				for _, s := range all {
					if !s.isPublished() {
						t.Error("a host does not know that it is published")
					}
					kill(s)
				}
			})
		})
	}
}

// Hosts come and go: a new one is there at once and without loss of the others; one that
// leaves is out at once; one that dies is out when its entry has grown old.
func TestFleetComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, k := newShelf(t), key(t)
		a := h.join(t, Config{Key: k, Fleet: true}, 3)
		if err := a.WaitPublished(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		b := h.join(t, Config{Key: k, Fleet: true}, 2)
		if err := b.WaitPublished(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		h.expect(t, "B came", k, a, b)
		c := h.join(t, Config{Key: k, Fleet: true}, 3)
		time.Sleep(time.Minute)
		synctest.Wait()
		h.expect(t, "C came", k, a, b, c)
		began := time.Now()
		if err := a.Withdraw(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it left after %v", took)
		}
		h.expect(t, "A left", k, b, c)
		time.Sleep(time.Hour) // it does not come back by itself
		synctest.Wait()
		h.expect(t, "A has left", k, b, c)
		kill(a)
		kill(b)
		time.Sleep(hsfleet.EntryLife + 2*lookMax + time.Minute)
		synctest.Wait()
		h.expect(t, "B died", k, c)
		// The last one may leave, too; its points stay, for there are no others.
		if err := c.Withdraw(t.Context()); err != nil {
			t.Fatal(err)
		}
		kill(c)
	})
}

// A host that takes over just before the other one leaves: at no time a directory has
// points of neither.
func TestFleetHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, k := newShelf(t), key(t)
		hosts := []*Service{h.join(t, Config{Key: k, Fleet: true}, 3)}
		if err := hosts[0].WaitPublished(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		over := make(chan struct{})
		watched := make(chan struct{})
		living := pointIDs(hosts...)
		var mu sync.Mutex
		go func() {
			defer close(watched)
			for {
				select {
				case <-over:
					return
				case <-time.After(time.Second):
				}
				mu.Lock()
				for _, ids := range h.sees(t, k, nil) {
					if !slices.ContainsFunc(ids, func(id ident.Ed25519ID) bool { return slices.Contains(living, id) }) {
						t.Error("a directory names no living point")
					}
				}
				mu.Unlock()
			}
		}()
		for range 3 {
			next := h.join(t, Config{Key: k, Fleet: true}, 3)
			if err := next.WaitPublished(t.Context()); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			living = pointIDs(hosts[0], next)
			mu.Unlock()
			if err := hosts[0].Withdraw(t.Context()); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			living = pointIDs(next)
			mu.Unlock()
			kill(hosts[0])
			hosts[0] = next
		}
		close(over)
		<-watched
		kill(hosts[0])
	})
}

// Some directories are down, some keep an old descriptor and say nothing.
func TestFleetBadDirectories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, k := newShelf(t), key(t)
		n := 0
		for r := range h.dir.All() {
			switch n++; n % 5 {
			case 0:
				h.down[r.ID().Ed] = true
			case 1:
				h.stale[r.ID().Ed] = true
			}
		}
		a, b := h.join(t, Config{Key: k, Fleet: true}, 3), h.join(t, Config{Key: k, Fleet: true}, 3)
		time.Sleep(time.Hour)
		synctest.Wait()
		h.expect(t, "bad directories", k, a, b)
		h.published()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		h.expect(t, "bad directories, later", k, a, b)
		if per := h.published() / 2 / 2; per > 16*15*2 {
			t.Errorf("%d uploads an hour and host", per)
		}
		kill(a)
		kill(b)
	})
}

// A fleet whose service is for authorized clients reads its own descriptors.
func TestFleetForClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, k := newShelf(t), key(t)
		alice, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{Key: k, Fleet: true}
		cfg.Clients = []ident.X25519Key{ident.X25519Key(alice.PublicKey().Bytes())}
		a, b := h.join(t, cfg, 3), h.join(t, cfg, 3)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		h.expectFor(t, "for clients", k, alice, a, b)
		kill(a)
		kill(b)
	})
}

// A program that knows nothing of fleets publishes once: the hosts bring each other back.
func TestFleetOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, k := newShelf(t), key(t)
		a, b := h.join(t, Config{Key: k, Fleet: true}, 3), h.join(t, Config{Key: k, Fleet: true}, 3)
		time.Sleep(5 * time.Minute)
		alone := h.join(t, Config{Key: k}, 3)
		if err := alone.WaitPublished(t.Context()); err != nil {
			t.Fatal(err)
		}
		kill(alone)
		time.Sleep(2*lookMax + time.Minute)
		synctest.Wait()
		h.expect(t, "overwritten", k, a, b)
		kill(a)
		kill(b)
	})
}
