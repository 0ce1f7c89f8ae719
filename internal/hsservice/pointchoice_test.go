package hsservice

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hsfleet"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/path"
)

// scarce is a network whose relays are too few if any is excluded.
type scarce struct {
	nowhere
	asked chan path.Spec
	few   bool
}

var errBuilt = errors.New("as far as the test goes")

func (n scarce) Build(_ context.Context, spec path.Spec) (*circuit.Circuit, uint64, error) {
	n.asked <- spec
	if n.few && len(spec.ExcludeExit) > 0 {
		return nil, 0, fault.New(fault.Directory, "%w last relay", path.ErrNone)
	}
	return nil, 0, errBuilt
}

// TestAvoidsHosts: a host of a fleet keeps off the relays of the other hosts, and of points that were lost, as long as there
// are others.
func TestAvoidsHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for _, few := range []bool{false, true} {
			n := scarce{asked: make(chan path.Spec, 10), few: few}
			s := hostedOn(t, n)
			theirs, lost := relay(t), relay(t)
			x := &descriptor{}
			x.view.Others = []hsfleet.Entry{
				{Host: hsfleet.HostID{1}, At: now, Points: []netdoc.HSIntroPoint{{Specs: theirs.Specs()}}},
				{Host: hsfleet.HostID{2}, At: now.Add(-hsfleet.EntryLife), Points: []netdoc.HSIntroPoint{{Specs: relay2(t)}}}, // it is gone
			}
			x.noteFailed(lost.RSA, now)
			if _, err := s.buildAround(t.Context(), path.Spec{}, x.avoid(now)); !errors.Is(err, errBuilt) {
				t.Error(err)
			}
			first := <-n.asked
			if !slices.Equal(first.ExcludeExit, []ident.RSAID{lost.RSA, theirs.RSA}) {
				t.Errorf("avoided: %v", first.ExcludeExit)
			}
			if len(n.asked) == 1 != few {
				t.Errorf("too few relays: %v; asked once more: %d", few, len(n.asked))
			}
			if got := x.avoid(now.Add(launchWindow)); !slices.Equal(got, []ident.RSAID{theirs.RSA}) {
				t.Errorf("later avoided: %v", got)
			}
			s.Close()
		}
	})
}

func relay2(t *testing.T) (specs []linkspec.Spec) { target := relay(t); return target.Specs() }

// TestLostAreAvoided: a relay whose point was lost for good is avoided for its descriptor.
func TestLostAreAvoided(t *testing.T) {
	s, now := two(t), time.Now()
	defer down(s)
	s.mu.Lock()
	p := upOf(t, s, s.descs[0], 7, now)
	p.retries = pointRetries
	gone := p.circ
	s.mu.Unlock()
	s.pointEnded(p, gone, fault.New(fault.Network, "the relay went"))
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.descs[0].avoid(now); !slices.Equal(got, []ident.RSAID{{7}}) || len(s.descs[1].avoid(now)) != 0 {
		t.Errorf("avoided: %v", got)
	}
}

// TestYields: of two hosts that chose one relay at the same time, the one with the greater name makes room, once in a while.
// Where there is no other relay both stay.
func TestYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			other  hsfleet.HostID
			crowd  bool // a point was chosen there although it was known
			yields bool
		}{{hsfleet.HostID{1}, false, true}, {hsfleet.HostID{9}, false, false}, {hsfleet.HostID{1}, true, false}} {
			h, k := newShelf(t), key(t)
			s := h.join(t, Config{Key: k, Fleet: true}, 3)
			time.Sleep(time.Minute)
			s.mu.Lock()
			s.fleet.Host = hsfleet.HostID{5}
			now, x := time.Now(), s.descs[1]
			var mine []*point
			for _, p := range s.points {
				if p.of == x {
					mine = append(mine, p)
				}
			}
			mine[0].target.RSA = ident.RSAID{1} // the other descriptor has none there
			x.view.Others = []hsfleet.Entry{{Host: c.other, At: now, Points: []netdoc.HSIntroPoint{{Specs: mine[0].target.Specs()}}}}
			if c.crowd {
				x.noteChoiceLocked(mine[0].target.RSA, now)
			}
			s.yieldLocked(x, now)
			for i, p := range s.points {
				if got := p.renew; got != (c.yields && p == mine[0]) {
					t.Errorf("%v: point %d makes room: %v", c, i, got)
				}
			}
			if c.yields {
				mine[0].renew = false
				if s.yieldLocked(x, now.Add(yieldPause-time.Second)); mine[0].renew {
					t.Error("it makes room again and again")
				}
			}
			x.view.Others = nil
			s.mu.Unlock()
			kill(s)
		}
	})
}

// busyShelf is offline, and tells when circuits to introduction points are asked for.
type busyShelf struct {
	offline
	begun chan time.Time
}

func (b busyShelf) Directory() (*netdir.Directory, <-chan struct{}) { return b.d, nil }

func (b busyShelf) Build(ctx context.Context, spec path.Spec) (*circuit.Circuit, uint64, error) {
	select {
	case b.begun <- time.Now():
	default:
	}
	return b.offline.Build(ctx, spec)
}

// TestLooksFirst: a host of a fleet looks at a descriptor before it chooses points for it, and waits for that only so long;
// a service without a fleet begins at once.
func TestLooksFirst(t *testing.T) {
	for _, c := range []struct {
		fleet, silent bool
		least, most   time.Duration
	}{{false, false, 0, 2 * pointPause}, {true, false, 0, 10 * time.Second}, {true, true, firstLook, firstLook + time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			h, k := newShelf(t), key(t)
			var by store = h
			if c.silent {
				by = mute{h}
			}
			s := h.joinBy(t, by, Config{Key: k, Fleet: c.fleet}, 0)
			b := busyShelf{offline{d: h.dir}, make(chan time.Time, 1)}
			began := time.Now()
			synctest.Wait() // it rests
			s.mu.Lock()
			s.cfg.Network = b
			s.mu.Unlock()
			s.kick()
			if took := (<-b.begun).Sub(began); took < c.least || took > c.most {
				t.Errorf("%+v: the first circuit begins after %v", c, took)
			}
			s.mu.Lock()
			if c.fleet && !c.silent && !s.descs[0].looked && !s.descs[1].looked {
				t.Error("it has not looked")
			}
			s.mu.Unlock()
			kill(s)
		})
	}
}

// mute is directories that do not answer.
type mute struct{ *shelf }

func (mute) fetch(ctx context.Context, _ netdir.Relay, _ ident.Ed25519ID) (*netdoc.HSDescriptor, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}
