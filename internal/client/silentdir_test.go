package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/simnet"
)

// TestSilentLinkOfDirectory: a client that has no usable directory asks its only bridge for one, and
// for nothing else. A link that is silent is given up all the same, though each of these requests
// has less time than a link must be silent.
func TestSilentLinkOfDirectory(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var dead sync.RWMutex
	var later atomic.Bool
	relay := simnet.New(t, simnet.Options{}).Target
	c, use := impatient(t, relay, func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		conn, err := simnet.Dial(ctx, addr)
		if later.Load() {
			return conn, err // only the first link is silent, and stays so: else its answer may come when another is wanted
		}
		return mute{conn, &dead}, err
	})
	use.Cancelled(time.Now())
	old, err := c.link(ctx, relay)
	if err != nil {
		t.Fatal(err)
	}
	later.Store(true)
	dead.Lock()
	defer dead.Unlock() // the relay ends only then
	ask := func() error {
		use, err := c.guards.PickBridge(relay.RSA, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithTimeoutCause(ctx, 300*time.Millisecond, errBuildTimeout)
		defer end()
		_, err = newCaches(c).get(ctx, relay, use)
		return err
	}
	// The initial timeout is a second.
	for tries := 1; c.chans.Find(relay) == old; tries++ {
		if err := ask(); !errors.Is(err, errBuildTimeout) {
			t.Fatal(err)
		}
		if tries == 1 && c.chans.Find(relay) != old {
			t.Error("one request put the link in doubt")
		}
		if tries == 20 {
			t.Fatal("the link is not in doubt, after 20 requests that had no answer")
		}
	}
	if next, err := c.link(ctx, relay); err != nil || next == old {
		t.Errorf("another link: %v", err)
	}
	if err := ask(); err != nil {
		t.Error("over the new link:", err)
	}
}
