package lab_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/lab"
)

// TestRemovedOnionClient: when a client of an onion service is removed, her connections end,
// whatever she sends on them, and she opens no others. The others come again.
func TestRemovedOnionClient(t *testing.T) {
	labtest.NoLeaks(t)
	nw := start(t, lab.Options{Relays: 6, Exits: 1})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	key, err := chive.NewOnionKey()
	if err != nil {
		t.Fatal(err)
	}
	network, err := chive.LoadNetwork(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	join := func() (k chive.OnionClientKey, c *chive.Client) {
		if k, err = chive.NewOnionClientKey(key.Address()); err != nil {
			t.Fatal(err)
		}
		if c, err = chive.New(chive.Config{Network: network, DataDir: t.TempDir()}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		return k, c
	}
	alicesKey, alice := join()
	evesKey, eve := join()
	l, err := nw.Client.Listen(ctx, chive.OnionConfig{Key: key, Ports: []int{7}, AuthorizedClients: []chive.OnionClient{alicesKey.Client()}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.AuthorizeClients(evesKey.Client()); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); io.Copy(c, c) }()
		}
	}()
	if err := l.WaitPublished(ctx); err != nil {
		t.Fatal(err)
	}
	addr := l.Address() + ":7"
	shut := func(c *chive.Client) { // there is no key
		t.Helper()
		if conn, err := c.DialContext(ctx, "tcp", addr); !errors.Is(err, chive.ErrOnionNeedsAuth) {
			t.Errorf("%v, %v", conn, err)
		}
	}
	shut(alice)
	if err := errors.Join(alice.AddOnionClientKey(alicesKey), eve.AddOnionClientKey(evesKey)); err != nil {
		t.Fatal(err)
	}
	echo(t, ctx, alice.DialContext, addr)
	hers, err := eve.DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer hers.Close()
	if err := l.RemoveClients(evesKey.Client()); err != nil {
		t.Fatal(err)
	}
	for b := []byte{1}; ; { // she uses her circuit as much as she can
		if _, err = hers.Write(b); err == nil {
			_, err = io.ReadFull(hers, b)
		}
		if err != nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("she goes on")
		}
	}
	if _, err := eve.DialContext(ctx, "tcp", addr); err == nil || ctx.Err() != nil {
		t.Errorf("she comes again: %v", err)
	} else if !errors.Is(err, chive.ErrOnionBadAuth) && !errors.Is(err, chive.ErrOnionNeedsAuth) {
		t.Logf("she is told: %v", err)
	}
	echo(t, ctx, alice.DialContext, addr)
	// A key that its client forgets leads nowhere, and leaves no way that is open still.
	kept, err := alice.DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	echo(t, ctx, alice.Isolated().DialContext, addr)
	if err := alice.RemoveOnionClientKey(key.Address()); err != nil {
		t.Fatal(err)
	}
	shut(alice)
	shut(alice.Isolated())
	var b [1]byte
	if _, err := kept.Write(b[:]); err != nil {
		t.Error("a connection that was open:", err)
	} else if _, err := io.ReadFull(kept, b[:]); err != nil {
		t.Error("a connection that was open:", err)
	}
	if err := alice.AddOnionClientKey(alicesKey); err != nil {
		t.Fatal(err)
	}
	echo(t, ctx, alice.DialContext, addr)
}
