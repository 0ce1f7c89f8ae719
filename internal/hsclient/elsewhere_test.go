package hsclient

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
)

// tryElsewhere is as try, with another attempt for later; began is when this began.
func tryElsewhere(t *testing.T, elsewhere func(ctx context.Context, a *race) outcome, points ...doing) (o outcome, began []time.Duration, took time.Duration) {
	t.Helper()
	c := New(Config{Network: &fakeNet{}, Log: slog.New(slog.DiscardHandler)})
	defer c.Close()
	list := make([]*netdoc.HSIntroPoint, len(points))
	for i := range points {
		list[i] = &netdoc.HSIntroPoint{Auth: ident.Ed25519ID{byte(i)}}
	}
	a := newRace(c.history(ident.Ed25519ID{}), list, nil)
	a.attempt = func(ctx context.Context, p *netdoc.HSIntroPoint) outcome {
		for ; p != nil; p = a.next() {
			if o := points[p.Auth[0]](ctx, a); o.circ != nil || o.err != nil || ctx.Err() != nil {
				return o
			}
		}
		return outcome{}
	}
	start := time.Now()
	a.elsewhere = func(ctx context.Context) outcome {
		began = append(began, time.Since(start))
		return elsewhere(ctx, a)
	}
	o = a.run(t.Context())
	return o, began, time.Since(start)
}

// TestElsewhere: when no introduction point is left, and the service does not come, it is
// soon asked elsewhere. Before, this began when the first rendezvous had timed out.
func TestElsewhere(t *testing.T) {
	lost := ignored(rendezvousTimeout, nil)
	for name, c := range map[string]struct {
		points []doing
		at     time.Duration
	}{
		"one point":                  {[]doing{lost}, slowService},
		"the others refuse":          {[]doing{lost, unreachable, unreachable}, slowService},
		"two lost":                   {[]doing{lost, lost}, 2 * slowService},
		"two lost, and there is one": {[]doing{lost, lost, lost}, 2 * slowService}, // which is tried beside
	} {
		synctest.Test(t, func(t *testing.T) {
			circ := new(closing)
			found := func(ctx context.Context, _ *race) outcome {
				time.Sleep(time.Second)
				return outcome{circ: circ}
			}
			o, began, took := tryElsewhere(t, found, c.points...)
			if o.circ != circ || o.err != nil || !slices.Equal(began, []time.Duration{c.at}) || took != c.at+time.Second || circ.n.Load() != 0 {
				t.Errorf("%s: %+v after %v, began %v", name, o, took, began)
			}
			nothing := func(context.Context, *race) outcome { return outcome{} }
			if o, began, _ = tryElsewhere(t, nothing, c.points...); !errors.Is(o.err, ErrRendezvous) || len(began) != 1 {
				t.Errorf("%s: nothing elsewhere: %+v, began %v", name, o, began)
			}
		})
	}
}

// TestElsewhereInVain: an attempt that fails, or succeeds, in good time asks nowhere else; if
// the service comes at last to where it was awaited, that counts.
func TestElsewhereInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late, first := new(closing), new(closing)
		slowly := func(context.Context, *race) outcome {
			time.Sleep(10 * time.Second)
			return outcome{circ: late}
		}
		if o, began, _ := tryElsewhere(t, slowly, unreachable, unreachable); o.circ != nil || len(began) != 0 {
			t.Errorf("%+v, began %v", o, began)
		}
		if o, began, _ := tryElsewhere(t, slowly, comes(time.Second, first)); o.circ != first || len(began) != 0 {
			t.Errorf("%+v, began %v", o, began)
		}
		o, began, took := tryElsewhere(t, slowly, ignored(5*time.Second, first))
		if o.circ != first || len(began) != 1 || took < 5*time.Second {
			t.Errorf("%+v after %v, began %v", o, took, began)
		}
		synctest.Wait()
		if first.n.Load() != 0 || late.n.Load() != 1 {
			t.Errorf("closed: %d times, %d times", first.n.Load(), late.n.Load())
		}
	})
}

// TestWhere: the points elsewhere are those of a newer descriptor, or of a fleet, that were
// not tried; and the newest descriptor is noted.
func TestWhere(t *testing.T) {
	s := newService(t)
	point := func(n byte) netdoc.HSIntroPoint {
		p := s.inner.Points[0]
		at := linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{n}}, Addrs: []netip.AddrPort{netip.MustParseAddrPort("8.8.8.8:443")}}
		p.Specs, p.Auth = at.Specs(), ident.Ed25519ID{n}
		return p
	}
	desc := func(revision uint64, fleet bool, points ...byte) *cached {
		d := &cached{inner: &netdoc.HSInner{}, blinded: s.blinded, revision: revision, expires: time.Now().Add(time.Hour)}
		if fleet {
			d.inner.Fleet = []byte{1}
		}
		for _, n := range points {
			d.inner.Points = append(d.inner.Points, point(n))
		}
		return d
	}
	for name, c := range map[string]struct {
		old, newer *cached
		want       []byte
	}{
		"a newer one":                    {desc(1, false, 1, 2), desc(2, false, 1, 2, 3, 4), []byte{3, 4}},
		"a newer one, the same points":   {desc(1, false, 1, 2), desc(2, false, 1, 2), nil},
		"no newer one":                   {desc(1, false, 1, 2, 3), nil, nil},
		"a fleet":                        {desc(1, true, 1, 2, 3), nil, []byte{3}},
		"a fleet, and a newer one of it": {desc(1, true, 1, 2), desc(2, true, 2, 3), []byte{3}},
		"a fleet that was tried":         {desc(1, true, 1, 2), nil, nil},
	} {
		f := &fakeNet{}
		client := newClient(t, f)
		if c.newer != nil {
			client.keep(c.newer, client.epoch)
		}
		a := newRace(client.history(s.id), nil, nil)
		a.tried[ident.Ed25519ID{1}], a.tried[ident.Ed25519ID{2}] = true, true
		a.found(c.old)
		if o := client.elsewhere(t.Context(), a, c.old, false); o.circ != nil || o.err != nil {
			t.Errorf("%s: %+v", name, o)
		}
		if got := f.points(); !slices.Equal(got, c.want) {
			t.Errorf("%s: asked at %v, not %v", name, got, c.want)
		}
		want := c.old
		if c.newer != nil {
			want = c.newer
		}
		if a.latest() != want {
			t.Errorf("%s: another descriptor is the newest", name)
		}
	}
}

// points are the introduction points of TestWhere that a client asked at.
func (f *fakeNet) points() (out []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range f.to {
		if id == (ident.RSAID{id[0]}) { // else it is a directory
			out = append(out, id[0])
		}
	}
	slices.Sort(out)
	return out
}

// TestLostPointsLast: a point after which the service did not come soon is tried after the
// others for a while, and not left out.
func TestLostPointsLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Network: &fakeNet{}, Log: slog.New(slog.DiscardHandler)})
		defer c.Close()
		h := c.history(ident.Ed25519ID{1})
		desc := &cached{inner: &netdoc.HSInner{Points: make([]netdoc.HSIntroPoint, 5)}}
		for i := range desc.inner.Points {
			desc.inner.Points[i].Auth = ident.Ed25519ID{byte(i)}
		}
		bad := &desc.inner.Points[2]
		last := func() (n int) {
			for range 50 {
				points, _ := h.usable(desc)
				if len(points) != 5 {
					t.Fatal(len(points))
				}
				if points[4] == bad {
					n++
				}
			}
			return n
		}
		h.noteWait(bad, false, time.Second) // another rendezvous was first
		if n := last(); n == 50 {
			t.Error("it is always last without a reason")
		}
		h.noteWait(bad, false, slowService)
		if n := last(); n != 50 {
			t.Errorf("it was last %d times", n)
		}
		h.noteWait(bad, true, time.Second)
		if n := last(); n == 50 {
			t.Error("it stays last although the service came")
		}
		h.noteWait(bad, true, 2*slowService)
		time.Sleep(forgive)
		if n := last(); n == 50 {
			t.Error("it stays last")
		}
	})
}
