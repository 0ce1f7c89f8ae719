package channel

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/linkspec"
)

// TestOldLinks: a link that is a week old gets no new circuits, and closes with its last one.
func TestOldLinks(t *testing.T) {
	keys(t)
	synctest.Test(t, func(t *testing.T) {
		addr := netip.MustParseAddr("192.0.2.1")
		m, ch := accepted(t, &Config{}, true, addr, addr)
		target := linkspec.Target{RelayID: ch.Peer()}
		c, err := ch.Open(newSink(), nil)
		if err != nil {
			t.Fatal(err)
		}
		const week = 7 * 24 * time.Hour
		time.Sleep(week - time.Second)
		if m.Find(target) != ch {
			t.Fatal("the link is not used any more")
		}
		time.Sleep(2 * time.Second)
		if m.Find(target) != nil {
			t.Error("the link gets new circuits")
		}
		m.Reap()
		if err := ch.Err(); err != nil {
			t.Fatal("a circuit ended with the link:", err)
		}
		c.Destroy(cell.DestroyNone)
		time.Sleep(time.Second)
		m.Reap()
		if ch.Err() == nil {
			t.Error("the link stays open")
		}
	})
}
