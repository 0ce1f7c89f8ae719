package lab_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/hsservice"
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
	key, err := hsservice.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	network, err := chive.LoadNetwork(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	authorize := func() (public string, c *chive.Client) {
		public, private, err := hsservice.NewClient(key.Address())
		if err != nil {
			t.Fatal(err)
		}
		if c, err = chive.New(chive.Config{Network: network, DataDir: t.TempDir(), ClientOnionAuth: []string{private}}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		return public, c
	}
	alicesKey, alice := authorize()
	evesKey, eve := authorize()
	l, err := nw.Client.Listen(ctx, chive.OnionConfig{Key: key.Bytes(), Ports: []int{7}, AuthorizedClients: []string{alicesKey, evesKey}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
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
	echo(t, ctx, alice.DialContext, addr)
	hers, err := eve.DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer hers.Close()
	cfg := l.Config()
	cfg.AuthorizedClients = []string{alicesKey}
	if err := l.Reload(cfg); err != nil {
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
}
