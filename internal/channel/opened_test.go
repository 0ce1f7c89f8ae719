package channel

import (
	"log/slog"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/ident"
)

// TestOpenedMayAsk: Opened runs under no lock of the manager, which has the channel by then.
func TestOpenedMayAsk(t *testing.T) {
	k := keys(t)
	synctest.Test(t, func(t *testing.T) {
		x, y := net.Pipe()
		now := func() time.Time { return k.Expires.Add(-time.Hour) }
		l, r, lerr, rerr := shake(t, x, y, ident.RelayID{RSA: k.ID.RSA}, &LinkConfig{Now: now}, &LinkConfig{Now: now, Identity: k})
		if lerr != nil || rerr != nil {
			t.Fatal(lerr, rerr)
		}
		far := Start(r, &Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		cfg := &Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)}
		m := NewManager(cfg, &LinkConfig{}, nil)
		defer func() { m.Close(); <-far.Done() }()
		var seen []*Channel
		cfg.Opened = func(*Link) {
			if !m.mu.TryLock() { // else Channels waits for ever
				t.Error("the manager is locked")
				return
			}
			m.mu.Unlock()
			seen = m.Channels()
		}
		ch, err := m.Adopt(l)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(seen, ch) {
			t.Error("the manager does not know the channel")
		}
	})
}
