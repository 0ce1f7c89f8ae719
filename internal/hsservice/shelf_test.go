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
	"sync/atomic"
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
	inc atomic.Int32 // the consensus's SENDME increment

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
	h := &shelf{dir: d, docs: map[ident.Ed25519ID]map[ident.Ed25519ID]*netdoc.HSDescriptor{}, down: map[ident.Ed25519ID]bool{}, stale: map[ident.Ed25519ID]bool{}, slow: time.Second}
	h.inc.Store(int32(flow.DefaultParams().SendmeInc))
	return h
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
	return slices.Concat(h.seesIn(t, k, auth, 0), h.seesIn(t, k, auth, 1))
}

// seesIn is sees of the first period's directories, or of the second's.
func (h *shelf) seesIn(t *testing.T, k *Key, auth *ecdh.PrivateKey, period int) (all [][]ident.Ed25519ID) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	periods := periodsOf(h.dir, false)
	for _, p := range periods[period : period+1] {
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
type offline struct {
	d   *netdir.Directory
	inc *atomic.Int32 // the consensus's SENDME increment; nil: the default
}

func (o offline) Directory() (*netdir.Directory, <-chan struct{}) { return o.d, nil }

func (offline) Build(context.Context, path.Spec) (*circuit.Circuit, uint64, error) {
	return nil, 0, fault.New(fault.Network, "nothing can be built")
}
func (offline) To(context.Context, linkspec.Target, []linkspec.Spec) (*circuit.Circuit, uint64, error) {
	return nil, 0, fault.New(fault.Network, "nothing can be built")
}
func (offline) Met() {}

func (o offline) Flow() (*flow.Params, bool) {
	p := flow.DefaultParams()
	if o.inc != nil {
		p.SendmeInc = int(o.inc.Load())
	}
	return &p, true
}
func (offline) Testing() bool                  { return false }
func (offline) Refused(*linkspec.Target) error { return nil }
func (offline) Knows(*linkspec.Target) bool    { return true }
func (o offline) ToDirectory(ctx context.Context, t linkspec.Target) (*circuit.Circuit, uint64, error) {
	return o.To(ctx, t, nil)
}

// join starts a host of a fleet with so many established points for each descriptor, or any service.
func (h *shelf) join(t *testing.T, cfg Config, points int) *Service {
	t.Helper()
	return h.joinBy(t, h, cfg, points)
}

// joinBy is join for a host that reaches the directories by a store.
func (h *shelf) joinBy(t *testing.T, by store, cfg Config, points int) *Service {
	t.Helper()
	cfg.Network, cfg.IntroductionPoints = offline{}, max(points, 1)
	cfg.Log = slog.New(slog.DiscardHandler)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // it has no directory, and rests
	s.mu.Lock()
	listed := slices.Collect(h.dir.All())
	if err := s.setPeriodsLocked(periodsOf(h.dir, false)); err != nil {
		t.Fatal(err)
	}
	for _, x := range s.descs {
		for i := range points {
			p, err := newPoint(time.Now(), nil)
			if err != nil {
				t.Fatal(err)
			}
			p.of, p.target, p.inc = x, relay(t), flow.DefaultParams().SendmeInc
			p.target.RSA = listed[i%len(listed)].RSA() // one that is not listed is replaced
			p.circ = new(circuit.Circuit)
			s.points = append(s.points, p)
		}
		x.since = time.Now()
	}
	s.store, s.cfg.Network = by, offline{h.dir, &h.inc}
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

// pointIDs are the points of hosts, of both descriptors.
func pointIDs(all ...*Service) (ids []ident.Ed25519ID) {
	return slices.Concat(pointIDsIn(0, all...), pointIDsIn(1, all...))
}

// pointIDsIn are the points of hosts, as a client should see them in the first period or the second.
func pointIDsIn(period int, all ...*Service) (ids []ident.Ed25519ID) {
	for _, s := range all {
		s.mu.Lock()
		for _, p := range s.points {
			if p.of == s.descs[period] {
				ids = append(ids, p.id())
			}
		}
		s.mu.Unlock()
	}
	slices.SortFunc(ids, func(a, b ident.Ed25519ID) int { return slices.Compare(a[:], b[:]) })
	return ids
}

// expect checks that every directory has the points of these hosts and no others.
func (h *shelf) expect(t *testing.T, what string, k *Key, all ...*Service) {
	t.Helper()
	h.expectFor(t, what, k, nil, all...)
}

// expectFor is expect as an authorized client sees it.
func (h *shelf) expectFor(t *testing.T, what string, k *Key, auth *ecdh.PrivateKey, all ...*Service) {
	t.Helper()
	for period := range 2 {
		want := pointIDsIn(period, all...)
		seen := h.seesIn(t, k, auth, period)
		if len(seen) == 0 {
			t.Fatal("no directory is asked")
		}
		for i, got := range seen {
			if !slices.Equal(got, want) {
				t.Errorf("%s: period %d, directory %d of %d has %d points, not the %d wanted", what, period, i, len(seen), len(got), len(want))
			}
		}
	}
}
