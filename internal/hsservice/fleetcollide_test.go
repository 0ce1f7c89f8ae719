package hsservice

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/hsfleet"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
)

// rival is directories that all have got a descriptor of another host, with the same
// revision, just before this one's first comes. The other host dies at once.
type rival struct {
	*shelf
	key    *Key
	points []netdoc.HSIntroPoint

	once sync.Mutex
	done map[ident.Ed25519ID]bool
}

func (r *rival) upload(ctx context.Context, dir netdir.Relay, doc []byte) (refused bool, err error) {
	d, err := netdoc.ParseHSDescriptor(doc, time.Now())
	if err != nil {
		return false, err
	}
	if err := r.publish(d); err != nil {
		return false, err
	}
	return r.shelf.upload(ctx, dir, doc)
}

func (r *rival) publish(d *netdoc.HSDescriptor) error {
	r.once.Lock()
	defer r.once.Unlock()
	if r.done[d.Blinded] {
		return nil
	}
	r.done[d.Blinded] = true
	f, err := hsfleet.New(r.key.Bytes())
	if err != nil {
		return err
	}
	for _, p := range periodsOf(r.dir, false) {
		x, err := newDescriptor(r.key, p, nil)
		if err != nil {
			return err
		}
		if x.keys.Blinded.Public() != d.Blinded {
			continue
		}
		inner := &netdoc.HSInner{Points: r.points}
		if inner.Fleet, err = f.Sealer.Seal([]hsfleet.Entry{{Host: f.Host, At: time.Now(), Points: r.points}}, d.Blinded, d.Revision); err != nil {
			return err
		}
		other, err := encode(&x.keys, d.Revision, inner, time.Now(), netdoc.MaxHSDescriptor)
		if err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for dir := range r.dir.All() {
			id := dir.ID().Ed
			if r.docs[id] == nil {
				r.docs[id] = map[ident.Ed25519ID]*netdoc.HSDescriptor{}
			}
			r.docs[id][d.Blinded] = other
		}
	}
	return nil
}

// A host whose revision another one has taken at all directories comes after it, although
// the other one never publishes again.
func TestFleetCollidesWithTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, k := newShelf(t), key(t)
		dead := h.join(t, Config{Key: key(t)}, 2)
		dead.mu.Lock()
		r := &rival{shelf: h, key: k, points: dead.introPointsLocked(dead.descs[0], time.Now()), done: map[ident.Ed25519ID]bool{}}
		dead.mu.Unlock()
		kill(dead)
		h.docs = map[ident.Ed25519ID]map[ident.Ed25519ID]*netdoc.HSDescriptor{}
		a := h.joinBy(t, r, Config{Key: k, Fleet: true}, 3)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if !a.isPublished() {
			t.Error("the host has not published after three minutes")
		}
		a.mu.Lock()
		for _, x := range a.descs {
			if n := x.view.Counted(); n > 3 {
				t.Errorf("%d descriptors are counted", n)
			}
		}
		a.mu.Unlock()
		kill(a)
	})
}
