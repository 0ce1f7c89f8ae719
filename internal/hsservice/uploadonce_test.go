package hsservice

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
)

// onceStore counts what it is asked.
type onceStore struct {
	*shelf
	uploads, fetches atomic.Int32
	hangs            atomic.Pointer[ident.Ed25519ID] // an upload to this one takes forever
}

func (o *onceStore) upload(ctx context.Context, dir netdir.Relay, doc []byte) (bool, error) {
	o.uploads.Add(1)
	if id := o.hangs.Load(); id != nil && *id == dir.ID().Ed {
		<-ctx.Done()
		return false, context.Cause(ctx)
	}
	return o.shelf.upload(ctx, dir, doc)
}

func (o *onceStore) fetch(ctx context.Context, dir netdir.Relay, blinded ident.Ed25519ID) (*netdoc.HSDescriptor, error) {
	o.fetches.Add(1)
	return o.shelf.fetch(ctx, dir, blinded)
}

// looksCommon is how a service is configured that looks like C tor's.
func looksCommon(t *testing.T) Config {
	return Config{Key: key(t), Limit: within(4 * time.Second), Rest: func(*circuit.Circuit, func()) {}}
}

// TestFailedUploadsWait: an upload that failed, or was refused, is left until the next descriptor is due, as C tor does, and no directory
// is asked why. The service of another look repeats it soon.
func TestFailedUploadsWait(t *testing.T) {
	for _, refused := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newShelf(t)
			h.change(func() {
				if h.deaf = fault.New(fault.Network, "no answer"); refused {
					h.deaf, h.refuses = nil, fault.New(fault.Refused, "no")
				}
			})
			st := &onceStore{shelf: h}
			s := h.joinBy(t, st, looksCommon(t), 3)
			time.Sleep(2 * time.Minute)
			first := st.uploads.Load()
			time.Sleep(minUpload - 5*time.Minute)
			if n := st.uploads.Load(); first == 0 || n != first || st.fetches.Load() != 0 {
				t.Errorf("%d uploads, then %d more, and %d questions", first, n-first, st.fetches.Load())
			}
			h.change(func() { h.deaf, h.refuses = nil, nil })
			ctx, cancel := context.WithTimeout(t.Context(), maxUpload)
			defer cancel()
			if err := s.WaitPublished(ctx); err != nil {
				t.Errorf("the next descriptor: %v", err)
			}
			kill(s)
		})
	}
}

// TestUploadMakesRoom: a directory that takes long to fail keeps neither WaitPublished waiting nor clients from new introduction points.
func TestUploadMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, cfg := newShelf(t), looksCommon(t)
		st := &onceStore{shelf: h}
		for _, p := range periodsOf(h.dir, false) {
			x, err := newDescriptor(cfg.Key, p, nil)
			if err != nil {
				t.Fatal(err)
			}
			if p.Period == h.dir.HSTimes(false).Period {
				id := p.directories(h.dir, x.keys.Blinded.Public())[0].ID().Ed
				st.hangs.Store(&id)
				h.change(func() { h.down[id] = true })
			}
		}
		s := h.joinBy(t, st, cfg, 3)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.WaitPublished(ctx); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second) // the others take a second at most
		h.expect(t, "before", cfg.Key, s)
		s.mu.Lock()
		for i, old := range s.points {
			p, err := newPoint(time.Now(), nil)
			if err != nil {
				t.Fatal(err)
			}
			p.of, p.target, p.inc, p.circ = old.of, old.target, s.inc, old.circ
			s.points[i] = p
		}
		s.mu.Unlock()
		s.kick()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		h.expect(t, "after", cfg.Key, s)
		kill(s)
	})
}
