package hsservice

import (
	"crypto/rand"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/hsfleet"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

// pretend is a backend whose descriptors a test makes by hand.
type pretend struct {
	k   *Key
	rev uint64
}

// put puts a descriptor of a backend on all directories.
func (b *pretend) put(t *testing.T, h *shelf, inner *netdoc.HSInner) {
	t.Helper()
	b.rev++
	for _, p := range periodsOf(h.dir, false) {
		x, err := newDescriptor(b.k, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := netdoc.EncodeHSDescriptor(rand.Reader, &x.keys, b.rev, inner, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range p.directories(h.dir, x.keys.Blinded.Public()) {
			if _, err := h.upload(t.Context(), dir, doc.Text); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.published()
}

// forget removes the backend's descriptors from all directories.
func (b *pretend) forget(t *testing.T, h *shelf) {
	t.Helper()
	for _, p := range periodsOf(h.dir, false) {
		x, err := newDescriptor(b.k, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		h.mu.Lock()
		for _, docs := range h.docs {
			delete(docs, x.keys.Blinded.Public())
		}
		h.mu.Unlock()
	}
}

// offers makes a descriptor's inner part with so many points.
func offers(t *testing.T, n int) *netdoc.HSInner {
	t.Helper()
	fc, err := protover.Parse("FlowCtrl=1-2")
	if err != nil {
		t.Fatal(err)
	}
	in := &netdoc.HSInner{FlowControl: fc, SendmeInc: 31, PoW: &netdoc.HSPoW{Expires: time.Now()}}
	for range n {
		p, err := newPoint(time.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		target := relay(t)
		in.Points = append(in.Points, netdoc.HSIntroPoint{Specs: target.Specs(), Onion: target.Ntor, Auth: p.id(), Enc: p.enc.Public()})
	}
	return in
}

// front is a frontend of pretended backends.
func front(t *testing.T, h *shelf, n int) (s *Service, list []*pretend) {
	t.Helper()
	cfg := Config{Key: key(t)}
	for range n {
		b := &pretend{k: key(t)}
		list = append(list, b)
		cfg.Backends = append(cfg.Backends, b.k.ID())
	}
	return h.join(t, cfg, 0), list
}

// expectPoints checks that clients of a frontend find these points.
func (h *shelf) expectPoints(t *testing.T, what string, s *Service, all ...*netdoc.HSInner) {
	t.Helper()
	var want []ident.Ed25519ID
	for _, in := range all {
		for _, p := range in.Points {
			want = append(want, p.Auth)
		}
	}
	slices.SortFunc(want, func(a, b ident.Ed25519ID) int { return slices.Compare(a[:], b[:]) })
	for _, got := range h.sees(t, s.cfg.Key, nil) {
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d points, %d wanted", what, len(got), len(want))
			return
		}
	}
}

// inner is what the frontend's clients read.
func (h *shelf) inner(t *testing.T, k *Key) *netdoc.HSInner {
	t.Helper()
	p := periodsOf(h.dir, false)[0]
	x, err := newDescriptor(k, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	in, err := h.docs[p.directories(h.dir, x.keys.Blinded.Public())[0].ID().Ed][x.keys.Blinded.Public()].Open(x.keys.Subcredential, nil)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// A frontend's descriptors follow those of its backends: they come, change, and go.
func TestFrontend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newShelf(t)
		s, b := front(t, h, 3)
		defer s.Close()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if h.published() != 0 {
			t.Error("a frontend without backends publishes")
		}
		one, two := offers(t, 3), offers(t, 3)
		one.CGO, two.CGO = true, true
		b[0].put(t, h, one)
		b[1].put(t, h, two)
		if err := s.WaitPublished(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		h.expectPoints(t, "two backends", s, one, two)
		in := h.inner(t, s.cfg.Key)
		if in.SendmeInc != 31 || !in.FlowControl.Has("FlowCtrl", 2) || !in.CGO || in.PoW != nil || in.Fleet != nil {
			t.Errorf("%+v", in)
		}
		h.published()
		time.Sleep(50 * time.Minute)
		synctest.Wait()
		if n := h.published(); n != 0 {
			t.Errorf("%d uploads, and nothing had changed", n)
		}
		one = offers(t, 3)
		b[0].put(t, h, one)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		h.expectPoints(t, "a backend changed", s, one, two)
		if in := h.inner(t, s.cfg.Key); in.CGO || in.SendmeInc != 31 {
			t.Errorf("CGO is offered, which one backend does not know, or nothing is: %+v", in)
		}
		two = &netdoc.HSInner{FlowControl: two.FlowControl, SendmeInc: two.SendmeInc, Points: two.Points}
		b[1].put(t, h, two) // the same without CGO
		one = &netdoc.HSInner{FlowControl: one.FlowControl, SendmeInc: one.SendmeInc, Points: one.Points, CGO: true}
		b[0].put(t, h, one)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if in := h.inner(t, s.cfg.Key); in.CGO {
			t.Error("CGO is offered, which the other backend does not know any more")
		}
		b[1].forget(t, h)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		h.expectPoints(t, "a backend vanished", s, one)
		three := offers(t, 2)
		three.FlowControl, three.SendmeInc = protover.Set{}, 0
		b[2].put(t, h, three)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		h.expectPoints(t, "a backend came", s, one, three)
		if in := h.inner(t, s.cfg.Key); !in.FlowControl.IsZero() {
			t.Error("congestion control is offered, which one backend does not know")
		}
		// Nobody says that a backend died: directories keep what it published.
		for range 3 {
			b[0].put(t, h, one)
			time.Sleep(time.Hour)
		}
		synctest.Wait()
		h.expectPoints(t, "a backend published nothing for hours", s, one)
	})
}

// A directory with an old descriptor of a backend, or with none, changes nothing.
func TestFrontendOldDescriptor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newShelf(t)
		s, b := front(t, h, 1)
		defer s.Close()
		first, second := offers(t, 3), offers(t, 3)
		b[0].put(t, h, first)
		n := 0
		for r := range h.dir.All() {
			h.change(func() { h.stale[r.ID().Ed] = n%2 == 0 })
			n++
		}
		if err := s.WaitPublished(t.Context()); err != nil {
			t.Fatal(err)
		}
		b[0].put(t, h, second)
		h.change(func() { clear(h.stale) })
		h.published()
		time.Sleep(50 * time.Minute)
		synctest.Wait()
		h.expectPoints(t, "half of the directories are old", s, second)
		if n := h.published(); n > 16 {
			t.Errorf("%d uploads for one change", n)
		}
	})
}

// A hostile backend: it takes all places, names relays of its neighbours, and swaps its
// points all the time. The other backend has its share, and uploads are few.
func TestFrontendHostileBackend(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		h := newShelf(t)
		s, b := front(t, h, 2)
		defer s.Close()
		good := offers(t, 3)
		b[1].put(t, h, good)
		bad := func() *netdoc.HSInner {
			in := offers(t, netdoc.MaxIntroPoints)
			for i := range 5 {
				private := linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{1}, Ed: ident.Ed25519ID{2}}, Addrs: []netip.AddrPort{netip.MustParseAddrPort("192.168.1.1:80")}}
				in.Points[i].Specs = private.Specs()
			}
			in.Points[6].Auth = good.Points[0].Auth // somebody else's
			in.Points[7].Onion = ident.X25519Key{}
			in.Points[8].Specs = nil
			return in
		}
		if err := s.WaitPublished(t.Context()); err != nil {
			t.Fatal(err)
		}
		b[0].put(t, h, bad())
		h.change(func() { h.slow = time.Millisecond })
		total, before := 0, h.published()
		for began := time.Now(); time.Since(began) < 2*time.Hour; time.Sleep(45 * time.Second) {
			total += h.published()
			b[0].put(t, h, bad())
		}
		synctest.Wait()
		if most := 16 * (2*hsfleet.MaxChanges + 4); total > most {
			t.Errorf("%d uploads in two hours, more than %d (%d before)", total, most, before)
		}
		in := h.inner(t, s.cfg.Key)
		for _, p := range in.Points {
			if err := hsfleet.CheckPoint(&p, false); err != nil {
				t.Error(err)
			}
		}
		n := 0
		for _, p := range good.Points {
			if slices.ContainsFunc(in.Points, func(o netdoc.HSIntroPoint) bool { return o.Auth == p.Auth && o.Enc == p.Enc }) {
				n++
			}
		}
		if n != 3 || len(in.Points) > netdoc.MaxIntroPoints {
			t.Errorf("the good backend has %d of %d points", n, len(in.Points))
		}
	})
}

func TestFrontendRefused(t *testing.T) {
	k, other := key(t), key(t).ID()
	for want, cfg := range map[string]Config{
		"no fleet":             {Backends: []ident.Ed25519ID{other}, Fleet: true},
		"no ports":             {Backends: []ident.Ed25519ID{other}, Live: Live{Ports: map[uint16]bool{80: true}}},
		"no masters":           {Backends: []ident.Ed25519ID{other}, Masters: []ident.Ed25519ID{other}},
		"own address is among": {Backends: []ident.Ed25519ID{k.ID()}},
		"21 backends":          {Backends: make([]ident.Ed25519ID, 21)},
	} {
		cfg.Key, cfg.Network = k, nowhere{}
		s, err := New(cfg)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
