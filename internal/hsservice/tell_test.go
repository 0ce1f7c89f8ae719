package hsservice

import (
	"bytes"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/netdir"
)

// TestTell: who wants to know hears of each descriptor, each upload and what came of it. The descriptor of now can be
// asked for.
func TestTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newShelf(t)
		var mu sync.Mutex
		var events []netdir.HSEvent // guarded by mu
		take := func() []netdir.HSEvent {
			mu.Lock()
			defer mu.Unlock()
			out := events
			events = nil
			return out
		}
		k := key(t)
		s, err := New(Config{Key: k, Network: offline{d: h.dir}, Tell: func(e netdir.HSEvent) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		synctest.Wait()
		made := take()
		if len(made) != 2 || made[0].Action != netdir.HSCreated || made[1].Action != netdir.HSCreated || made[0].Service != k.ID() || made[0].Blinded == made[1].Blinded || !made[0].Dir.IsZero() {
			t.Fatalf("%+v", made)
		}
		if s.Descriptor() != nil {
			t.Error("there is a descriptor before it is made")
		}
		now := h.dir.HSTimes(false).Period
		var x *descriptor
		make1 := func() {
			t.Helper()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.store = h
			for _, d := range s.descs {
				if err := s.makeLocked(d, points(t), [32]byte{1}, time.Now()); err != nil {
					t.Fatal(err)
				}
				if d.period.Period == now {
					x = d
				}
			}
		}
		make1()
		if got := s.Descriptor(); !bytes.Equal(got, x.doc.Text) {
			t.Errorf("%d bytes", len(got))
		}
		dir := x.period.directories(h.dir, x.keys.Blinded.Public())[0]
		want := func(action netdir.HSAction, reason string) {
			t.Helper()
			got := take()
			if len(got) != 2 || got[0].Action != netdir.HSUpload || got[0].Dir != dir || got[0].Index == [32]byte{} || got[0].Blinded != x.keys.Blinded.Public() {
				t.Fatalf("%+v", got)
			}
			if got[1].Action != action || got[1].Reason != reason || got[1].Dir != dir || got[1].Fetch {
				t.Errorf("%+v", got[1])
			}
		}
		if err := s.uploadTo(t.Context(), x, dir, x.doc); err != nil {
			t.Fatal(err)
		}
		want(netdir.HSUploaded, "")
		older := x.doc
		make1()
		if err := s.uploadTo(t.Context(), x, dir, x.doc); err != nil {
			t.Fatal(err)
		}
		take()
		if err := s.uploadTo(t.Context(), x, dir, older); err == nil {
			t.Error("it took an older one")
		}
		want(netdir.HSFailed, "UPLOAD_REJECTED")
		h.mu.Lock()
		h.down[dir.ID().Ed] = true
		h.mu.Unlock()
		if err := s.uploadTo(t.Context(), x, dir, x.doc); err == nil {
			t.Error("it is down")
		}
		want(netdir.HSFailed, "UNEXPECTED")
	})
}
