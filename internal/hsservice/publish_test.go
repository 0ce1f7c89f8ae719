package hsservice

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/testvec/dirgen"
)

// Whatever the hour, a client finds one of the service's two descriptors where the
// service put it, although its consensus is an hour older or newer.
func TestPeriodsOverlap(t *testing.T) {
	n, err := dirgen.New(dirgen.Options{Relays: 10, Authorities: 1})
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	type hour struct {
		service [2]period
		client  period // without run
	}
	var hours []hour
	for i := range 50 {
		at := time.Date(2026, 3, 1, i, 0, 0, 0, time.UTC)
		if err := n.Publish(at); err != nil {
			t.Fatal(err)
		}
		d, err := n.Directory()
		if err != nil {
			t.Fatal(err)
		}
		// A new value each midnight.
		values := func(hscrypto.Period) (previous, current [32]byte) {
			day := byte(at.Unix() / 86400)
			return [32]byte{day - 1}, [32]byte{day}
		}
		ht := d.HSTimes(false)
		previous, current := values(ht.Period)
		c := period{Period: ht.Period, srv: previous}
		if ht.NewValue {
			c.srv = current
		}
		hours = append(hours, hour{periodsAt(ht, day, values), c})
		for _, p := range hours[i].service {
			if age := at.Sub(p.run); age < 0 || age >= 2*day {
				t.Errorf("hour %d: the counter counts from %v", i, p.run)
			}
		}
	}
	for i := range hours {
		for j := max(0, i-1); j <= min(i+1, len(hours)-1); j++ {
			c, found := hours[j].client, false
			for _, p := range hours[i].service {
				found = found || p.Period == c.Period && p.srv == c.srv
			}
			if !found {
				t.Errorf("a client at hour %d looks at %+v; a service at hour %d is at %+v", j, c, i, hours[i].service)
			}
		}
	}
}

// made is a descriptor of a period that began an hour ago.
func made(t *testing.T, clients ...ident.X25519Key) (*Service, *descriptor) {
	t.Helper()
	s, _ := hosted(t, nowhere{congestion: true})
	p := period{Period: hscrypto.PeriodAt(time.Now(), hscrypto.DefaultPeriod, 12*time.Hour), run: time.Now().Add(-time.Hour)}
	x, err := newDescriptor(s.cfg.Key, p, clients)
	if err != nil {
		t.Fatal(err)
	}
	return s, x
}

func points(t *testing.T) []netdoc.HSIntroPoint {
	t.Helper()
	p, err := newPoint(time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	target := linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{1}, Ed: ident.Ed25519ID{2}}}
	return []netdoc.HSIntroPoint{{Specs: target.Specs(), Onion: ident.X25519Key{9}, Auth: p.id(), Enc: p.enc.Public()}}
}

// A client that knows the address computes the same keys, and reads the descriptor.
func TestMake(t *testing.T) {
	s, x := made(t)
	want := points(t)
	if err := s.makeLocked(x, want, [32]byte{1}, time.Now()); err != nil {
		t.Fatal(err)
	}
	blinded, err := hscrypto.Blind(s.cfg.Key.ID(), x.period.Period)
	if err != nil {
		t.Fatal(err)
	}
	d, err := netdoc.ParseHSDescriptor(x.doc.Text, time.Now())
	if err != nil || d.Blinded != blinded {
		t.Fatalf("%v %v", d.Blinded, err)
	}
	in, err := d.Open(hscrypto.Subcredential(s.cfg.Key.ID(), blinded), nil)
	if err != nil || len(in.Points) != 1 || in.Points[0].Auth != want[0].Auth || in.Points[0].Enc != want[0].Enc {
		t.Fatalf("%+v %v", in, err)
	}
	if int(in.SendmeInc) != s.inc || !in.FlowControl.Has("FlowCtrl", 2) {
		t.Errorf("%+v", in)
	}
}

func TestMakeForClients(t *testing.T) {
	alice, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	mallory, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, x := made(t, ident.X25519Key(alice.PublicKey().Bytes()))
	if err := s.makeLocked(x, points(t), [32]byte{1}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if in, err := x.doc.Open(x.keys.Subcredential, alice); err != nil || len(in.Points) != 1 {
		t.Error(err)
	}
	if _, err := x.doc.Open(x.keys.Subcredential, mallory); !errors.Is(err, netdoc.ErrHSBadAuth) {
		t.Error(err)
	}
	if _, err := x.doc.Open(x.keys.Subcredential, nil); !errors.Is(err, netdoc.ErrHSNeedsAuth) {
		t.Error(err)
	}
}

// The revision grows with each descriptor, and over what a directory has already.
func TestRevision(t *testing.T) {
	s, x := made(t)
	now, last := x.period.run.Add(time.Hour), uint64(0)
	next := func() uint64 {
		t.Helper()
		if err := s.makeLocked(x, points(t), [32]byte{1}, now); err != nil {
			t.Fatal(err)
		}
		if x.revision <= last || x.doc.Revision != x.revision {
			t.Errorf("%d follows %d", x.revision, last)
		}
		last = x.revision
		return last
	}
	first := next()
	if ope, err := x.counter.At(3600 + 1); err != nil || first != ope {
		t.Errorf("%d, not %d: %v", first, ope, err)
	}
	next()         // at the same time
	x.revision = 0 // another program with the same key, in the same second
	now = now.Add(200 * time.Millisecond)
	next()
	now = now.Add(time.Hour)
	next()
	now = now.Add(-30 * time.Minute) // somebody set the clock
	next()
	x.floor = last + 1_000_000
	if got := next(); got != x.floor+1 {
		t.Errorf("%d, not more than %d by one", got, x.floor)
	}
}

// Whoever moves, leaves or comes makes a new descriptor due.
func TestContent(t *testing.T) {
	_, x := made(t)
	ids := []netdoc.HSIntroPoint{{Auth: ident.Ed25519ID{1}}, {Auth: ident.Ed25519ID{2}}}
	a := contentOf(x, nil, ids, "")
	if a != contentOf(x, nil, ids, "") {
		t.Error("the same is another")
	}
	if a == contentOf(x, nil, ids[:1], "") {
		t.Error("a point that left does not count")
	}
	if a == contentOf(x, nil, ids, "1-2") {
		t.Error("what is offered does not count")
	}
	x.period.srv[0]++
	if a == contentOf(x, nil, ids, "") {
		t.Error("a new shared random value does not count")
	}
}

func TestSetPeriods(t *testing.T) {
	s, _ := hosted(t, nowhere{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subcreds = nil
	p := hscrypto.PeriodAt(time.Now(), hscrypto.DefaultPeriod, 12*time.Hour)
	for range 10 {
		if err := s.setPeriodsLocked([2]period{{Period: p}, {Period: p.Next()}}); err != nil {
			t.Fatal(err)
		}
		kept := s.descs[1]
		p = p.Next()
		if err := s.setPeriodsLocked([2]period{{Period: p}, {Period: p.Next()}}); err != nil {
			t.Fatal(err)
		}
		if s.descs[0] != kept {
			t.Error("the descriptor of a period that goes on was made anew")
		}
	}
	if len(s.descs) != 2 || len(s.subcreds) != oldSubcreds {
		t.Errorf("%d descriptors, %d secrets", len(s.descs), len(s.subcreds))
	}
}

// A descriptor that could not be made leaves nothing to upload: if all is then as it was
// before, there is a new one all the same.
func TestMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newShelf(t)
		s, err := New(Config{Key: key(t), Network: offline{}}) // it has no directory, and rests
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		tend := func(clients []ident.X25519Key, own []netdoc.HSIntroPoint) *descriptor {
			t.Helper()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.store = h
			if err := s.setPeriodsLocked(periodsOf(h.dir, false)); err != nil {
				t.Fatal(err)
			}
			x := s.descs[0]
			x.keys.Clients = clients
			s.tendDescriptorLocked(h.dir, x, own, time.Now())
			return x
		}
		own := points(t)
		tend(nil, own)
		time.Sleep(time.Minute)
		if x := tend(make([]ident.X25519Key, 1000), own); x.busy || s.problem == nil {
			t.Fatalf("a descriptor that is too long: %v", s.problem)
		}
		time.Sleep(maxRetry)
		x := tend(nil, own)
		s.mu.Lock()
		defer s.mu.Unlock()
		if !x.busy || x.doc == nil || x.doc.Revision != x.revision {
			t.Errorf("uploads: %v; there is a descriptor: %v", x.busy, x.doc != nil)
		}
	})
}

// contrary is directories of which one keeps what it gets, and says that it refuses it.
type contrary struct {
	mu        sync.Mutex
	bad       ident.Ed25519ID
	docs      map[ident.Ed25519ID]*netdoc.HSDescriptor // of the bad one, by blinded key
	revisions map[uint64]bool
	refusals  int
}

func (c *contrary) upload(_ context.Context, dir netdir.Relay, doc []byte) (refused bool, err error) {
	d, err := netdoc.ParseHSDescriptor(doc, time.Now())
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revisions[d.Revision] = true
	if c.bad.IsZero() {
		c.bad = dir.ID().Ed
	}
	if dir.ID().Ed != c.bad {
		return false, nil
	}
	c.docs[d.Blinded] = d
	c.refusals++
	return true, fault.New(fault.Refused, "it answers an upload with status 400")
}

func (c *contrary) fetch(_ context.Context, dir netdir.Relay, blinded ident.Ed25519ID) (*netdoc.HSDescriptor, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if dir.ID().Ed != c.bad {
		return nil, nil
	}
	return c.docs[blinded], nil
}

// TestRefusedButKept: a directory that refuses our descriptor, and then serves it, does not
// make the service publish again and again.
func TestRefusedButKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newShelf(t)
		s, err := New(Config{Key: key(t), Network: offline{}}) // it has no directory, and rests
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		c := &contrary{docs: map[ident.Ed25519ID]*netdoc.HSDescriptor{}, revisions: map[uint64]bool{}}
		own := points(t)
		for range 55 {
			s.mu.Lock()
			s.store = c
			if err := s.setPeriodsLocked(periodsOf(h.dir, false)); err != nil {
				t.Error(err)
			}
			s.tendDescriptorLocked(h.dir, s.descs[0], own, time.Now())
			s.mu.Unlock()
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		if c.refusals == 0 || len(c.revisions) != 1 {
			t.Errorf("%d descriptors in 55 minutes; %d uploads were refused", len(c.revisions), c.refusals)
		}
	})
}

// blind is directories that take descriptors, and do not give them out before a time.
type blind struct {
	*shelf
	until time.Time
}

func (b blind) fetch(ctx context.Context, dir netdir.Relay, blinded ident.Ed25519ID) (*netdoc.HSDescriptor, error) {
	if time.Now().Before(b.until) {
		return nil, fault.New(fault.Network, "the directory does not answer")
	}
	return b.shelf.fetch(ctx, dir, blinded)
}

// TestPublishedLater: a descriptor that all directories took, or all that live, and that could
// not be fetched back at once is looked for again: Published waits for that, and not for the
// next descriptor.
func TestPublishedLater(t *testing.T) {
	for _, down := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			h, k := newShelf(t), key(t)
			h.change(func() {
				for _, p := range periodsOf(h.dir, false) {
					x, err := newDescriptor(k, p, nil)
					if err != nil {
						t.Fatal(err)
					}
					for _, dir := range p.directories(h.dir, x.keys.Blinded.Public())[:down] {
						h.down[dir.ID().Ed] = true
					}
				}
			})
			s := h.joinBy(t, blind{h, time.Now().Add(time.Minute)}, Config{Key: k}, 3)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+maxRetry)
			defer cancel()
			if err := s.WaitPublished(ctx); err != nil {
				t.Errorf("with %d directories down: %v", down, err)
			}
			kill(s)
		})
	}
}

// TestNewContentNow: a descriptor that says something new does not wait for the pause of a
// directory that is down: clients need the new introduction points.
func TestNewContentNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, k := newShelf(t), key(t)
		h.change(func() {
			for _, p := range periodsOf(h.dir, false) {
				x, err := newDescriptor(k, p, nil)
				if err != nil {
					t.Fatal(err)
				}
				h.down[p.directories(h.dir, x.keys.Blinded.Public())[0].ID().Ed] = true
			}
		})
		s := h.join(t, Config{Key: k}, 3)
		const soon = 30 * time.Second
		for pause := time.Duration(0); pause < 2*soon; { // failures make it longer
			time.Sleep(minRetry)
			s.mu.Lock()
			pause = min(time.Until(s.descs[0].retry), time.Until(s.descs[1].retry))
			s.mu.Unlock()
		}
		h.expect(t, "before", k, s)
		s.mu.Lock()
		p, err := newPoint(time.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		p.of, p.target, p.inc, p.circ = s.points[0].of, relay(t), s.inc, s.points[0].circ
		s.points[0] = p // one was lost, and has a successor
		s.mu.Unlock()
		s.kick()
		time.Sleep(soon)
		synctest.Wait()
		h.expect(t, "after", k, s)
		kill(s)
	})
}
