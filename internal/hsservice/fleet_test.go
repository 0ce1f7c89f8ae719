package hsservice

import (
	"cmp"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// shelf is the directories of a network, which follow HSDir's rules.
type shelf struct {
	dir *netdir.Directory

	mu      sync.Mutex
	docs    map[ident.Ed25519ID]map[ident.Ed25519ID]*netdoc.HSDescriptor // by directory and blinded key
	down    map[ident.Ed25519ID]bool
	stale   map[ident.Ed25519ID]bool // these keep what they have, and say that they took it
	uploads int
	slow    time.Duration // an answer takes up to so long
	deaf    error         // not nil: what every question ends with
	refuses error         // not nil: why every upload is refused
}

// change changes the directories while services use them.
func (h *shelf) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// long skips a test of some ten thousand descriptors in the short mode, in which the
// race detector runs.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("many descriptors are made")
	}
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	n, err := dirgen.New(dirgen.Options{Relays: 40, Authorities: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Publish(time.Now().Truncate(time.Hour)); err != nil {
		t.Fatal(err)
	}
	d, err := n.Directory()
	if err != nil {
		t.Fatal(err)
	}
	return &shelf{dir: d, docs: map[ident.Ed25519ID]map[ident.Ed25519ID]*netdoc.HSDescriptor{}, down: map[ident.Ed25519ID]bool{}, stale: map[ident.Ed25519ID]bool{}, slow: time.Second}
}

func (h *shelf) wait(ctx context.Context) error {
	h.mu.Lock()
	slow := h.slow
	h.mu.Unlock()
	select {
	case <-time.After(time.Duration(1 + random(int64(slow)))):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *shelf) upload(ctx context.Context, dir netdir.Relay, doc []byte) (refused bool, err error) {
	if err := h.wait(ctx); err != nil {
		return false, err
	}
	d, err := netdoc.ParseHSDescriptor(doc, time.Now())
	if err != nil || len(doc) > netdoc.MaxHSDescriptor {
		panic(fmt.Sprint(len(doc), err)) // a directory would refuse it
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.uploads++
	if err := cmp.Or(h.deaf, h.refuses); err != nil {
		return h.deaf == nil, err
	}
	id := dir.ID().Ed
	if h.down[id] {
		return false, fault.New(fault.Network, "the directory is down")
	}
	if h.stale[id] && h.docs[id][d.Blinded] != nil {
		return false, nil
	}
	if old := h.docs[id][d.Blinded]; old != nil && d.Revision <= old.Revision {
		return true, fault.New(fault.Refused, "there is one with a greater revision")
	}
	if h.docs[id] == nil {
		h.docs[id] = map[ident.Ed25519ID]*netdoc.HSDescriptor{}
	}
	h.docs[id][d.Blinded] = d
	return false, nil
}

func (h *shelf) fetch(ctx context.Context, dir netdir.Relay, blinded ident.Ed25519ID) (*netdoc.HSDescriptor, error) {
	if err := h.wait(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down[dir.ID().Ed] {
		return nil, fault.New(fault.Network, "the directory is down")
	}
	if h.deaf != nil {
		return nil, h.deaf
	}
	return h.docs[dir.ID().Ed][blinded], nil
}

// sees is the introduction points that a client finds at each of the directories that it
// may ask; a directory that is down, or stale, does not count.
func (h *shelf) sees(t *testing.T, k *Key, auth *ecdh.PrivateKey) (all [][]ident.Ed25519ID) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range periodsOf(h.dir, false) {
		x, err := newDescriptor(k, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range p.directories(h.dir, x.keys.Blinded.Public()) {
			if h.down[dir.ID().Ed] || h.stale[dir.ID().Ed] {
				continue
			}
			d := h.docs[dir.ID().Ed][x.keys.Blinded.Public()]
			if d == nil {
				all = append(all, nil)
				continue
			}
			in, err := d.Open(x.keys.Subcredential, auth)
			if err != nil {
				t.Fatal(err)
			}
			var ids []ident.Ed25519ID
			for _, p := range in.Points {
				ids = append(ids, p.Auth)
			}
			slices.SortFunc(ids, func(a, b ident.Ed25519ID) int { return slices.Compare(a[:], b[:]) })
			all = append(all, ids)
		}
	}
	return all
}

// published counts the uploads since the last call.
func (h *shelf) published() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.uploads
	h.uploads = 0
	return n
}

// offline is a client with a directory and without circuits.
type offline struct{ d *netdir.Directory }

func (o offline) Directory() (*netdir.Directory, <-chan struct{}) { return o.d, nil }
func (offline) Build(context.Context, path.Spec) (*circuit.Circuit, uint64, error) {
	return nil, 0, fault.New(fault.Network, "nothing can be built")
}
func (offline) To(context.Context, linkspec.Target, []linkspec.Spec) (*circuit.Circuit, uint64, error) {
	return nil, 0, fault.New(fault.Network, "nothing can be built")
}
func (offline) Met() {}

func (offline) Flow() (*flow.Params, bool) {
	p := flow.DefaultParams()
	return &p, true
}
func (offline) Testing() bool                  { return false }
func (offline) Refused(*linkspec.Target) error { return nil }
func (offline) Knows(*linkspec.Target) bool    { return true }
func (o offline) ToDirectory(ctx context.Context, t linkspec.Target) (*circuit.Circuit, uint64, error) {
	return o.To(ctx, t, nil)
}

// join starts a host of a fleet with so many established points, or any service.
func (h *shelf) join(t *testing.T, cfg Config, points int) *Service {
	t.Helper()
	return h.joinBy(t, h, cfg, points)
}

// joinBy is join for a host that reaches the directories by a store.
func (h *shelf) joinBy(t *testing.T, by store, cfg Config, points int) *Service {
	t.Helper()
	cfg.Circuits, cfg.Points = offline{}, max(points, 1)
	cfg.Log = slog.New(slog.DiscardHandler)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // it has no directory, and rests
	s.mu.Lock()
	for range points {
		p, err := newPoint(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		p.target = relay(t)
		p.circ = new(circuit.Circuit)
		s.points = append(s.points, p)
	}
	s.since = time.Now()
	s.store, s.cfg.Circuits = by, offline{h.dir}
	s.mu.Unlock()
	s.kick()
	return s
}

func relay(t *testing.T) linkspec.Target {
	t.Helper()
	var id ident.RelayID
	_, _ = rand.Read(id.RSA[:])
	_, _ = rand.Read(id.Ed[:])
	return linkspec.Target{RelayID: id, Ntor: ident.X25519Key{9}, Addrs: []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{8, id.RSA[0], id.RSA[1], 8}), 9001)}}
}

// kill ends a host without a word.
func kill(s *Service) {
	down(s)
	s.Close()
}

// pointIDs are the points of hosts, as a client should see them.
func pointIDs(all ...*Service) (ids []ident.Ed25519ID) {
	for _, s := range all {
		s.mu.Lock()
		for _, p := range s.points {
			ids = append(ids, p.id())
		}
		s.mu.Unlock()
	}
	slices.SortFunc(ids, func(a, b ident.Ed25519ID) int { return slices.Compare(a[:], b[:]) })
	return ids
}

// expect checks that every directory has the points of these hosts and no others.
func (h *shelf) expect(t *testing.T, what string, k *Key, all ...*Service) {
	t.Helper()
	want := pointIDs(all...)
	seen := h.sees(t, k, nil)
	if len(seen) == 0 {
		t.Fatal("no directory is asked")
	}
	for i, got := range seen {
		if !slices.Equal(got, want) {
			t.Errorf("%s: directory %d of %d has %d points, not the %d wanted", what, i, len(seen), len(got), len(want))
		}
	}
}

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
				if most := 1.5 * 16 * float64(time.Hour/refreshMin); per > most {
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
		if err := a.Published(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		b := h.join(t, Config{Key: k, Fleet: true}, 2)
		if err := b.Published(t.Context()); err != nil {
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
		time.Sleep(entryLife + 2*lookMax + time.Minute)
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
		if err := hosts[0].Published(t.Context()); err != nil {
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
			if err := next.Published(t.Context()); err != nil {
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
		want := pointIDs(a, b)
		for _, got := range h.sees(t, k, alice) {
			if !slices.Equal(got, want) {
				t.Errorf("%d points", len(got))
			}
		}
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
		if err := alone.Published(t.Context()); err != nil {
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
				if len(x.view.published) > 5 {
					t.Errorf("%d descriptors are counted", len(x.view.published))
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
			if err := s.Reload(Live{Clients: cfg.Clients[:1], Points: 5}); err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			for _, p := range s.points {
				p.renew = false // there are no circuits to new ones here
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
