package hsservice

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
)

// asked counts the descriptors that a service asks for.
type asked struct {
	*shelf
	n *atomic.Int32
}

func (a asked) fetch(ctx context.Context, dir netdir.Relay, blinded ident.Ed25519ID) (*netdoc.HSDescriptor, error) {
	a.n.Add(1)
	return a.shelf.fetch(ctx, dir, blinded)
}

// TestFetchedBack: a service fetches its descriptor back before it says that it is published, unless it looks like
// C tor's, which asks for nothing.
func TestFetchedBack(t *testing.T) {
	for _, common := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h, n := newShelf(t), new(atomic.Int32)
			c := Config{Key: key(t)}
			if common {
				c.Rest = func(*circuit.Circuit, func()) {}
			}
			s := h.joinBy(t, asked{h, n}, c, 3)
			defer kill(s)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := s.WaitPublished(ctx); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute) // of virtual time
			synctest.Wait()
			if got := n.Load() == 0; got != common {
				t.Errorf("common %v: the service has asked for %d descriptors", common, n.Load())
			}
		})
	}
}
