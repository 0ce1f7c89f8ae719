package channel

import (
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
)

// TestReapLeavesWhatWasFound: an idle channel that somebody has just found stays for the
// circuit that is about to be opened on it, and closes later if there is none.
func TestReapLeavesWhatWasFound(t *testing.T) {
	k := keys(t)
	synctest.Test(t, func(t *testing.T) {
		x, y := net.Pipe()
		now := func() time.Time { return k.Expires.Add(-time.Hour) }
		l, r, lerr, rerr := shake(t, x, y, ident.RelayID{RSA: k.ID.RSA}, &LinkConfig{Now: now}, &LinkConfig{Now: now, Identity: k})
		if lerr != nil || rerr != nil {
			t.Fatal(lerr, rerr)
		}
		cfg := &Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)}
		far := Start(r, cfg)
		m := NewManager(cfg, &LinkConfig{}, nil)
		defer func() { m.Close(); <-far.Done() }()
		ch, err := m.Adopt(l)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(idleTimeout*3/2 + time.Second)
		target := linkspec.Target{RelayID: ident.RelayID{RSA: k.ID.RSA}, Addrs: []netip.AddrPort{l.Dialled}}
		if m.Find(target) != ch {
			t.Fatal("the channel was not found")
		}
		m.Reap()
		c, err := ch.Open(newSink(), nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * idleTimeout)
		m.Reap()
		if err := ch.Err(); err != nil {
			t.Fatal(err)
		}
		c.Destroy(cell.DestroyNone)
		time.Sleep(idleTimeout - time.Second)
		m.Reap()
		if err := ch.Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(idleTimeout/2 + 2*time.Second)
		m.Reap()
		<-ch.Done()
		if m.Find(target) != nil {
			t.Error("a closed channel was found")
		}
	})
}

// TestForgottenAtTheEnd: a manager keeps no channel that is done.
func TestForgottenAtTheEnd(t *testing.T) {
	k := keys(t)
	synctest.Test(t, func(t *testing.T) {
		x, y := net.Pipe()
		now := func() time.Time { return k.Expires.Add(-time.Hour) }
		l, r, lerr, rerr := shake(t, x, y, ident.RelayID{RSA: k.ID.RSA}, &LinkConfig{Now: now}, &LinkConfig{Now: now, Identity: k})
		if lerr != nil || rerr != nil {
			t.Fatal(lerr, rerr)
		}
		m := NewManager(&Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)}, &LinkConfig{}, nil)
		defer m.Close()
		var all []*Channel
		for _, link := range []*Link{l, r} { // to a relay, and of a client
			ch, err := m.Adopt(link)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, ch)
		}
		if n := len(m.Channels()); n != len(all) {
			t.Errorf("%d channels are kept", n)
		}
		all[0].Close(errShutDown("test"))
		for _, ch := range all {
			<-ch.Done()
		}
		if n := len(m.Channels()); n != 0 {
			t.Errorf("%d channels are kept after their end", n)
		}
	})
}
