package lab_test

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/lab"
)

// TestBridgesChange: a client gets other bridges while it runs. What leads over those that were removed ends, what
// leads over others goes on, and new circuits begin with the new ones.
func TestBridgesChange(t *testing.T) {
	labtest.NoLeaks(t)
	nw := start(t, lab.Options{Authorities: 1, Relays: 2, Exits: 1, Bridges: 2})
	first, second := nw.Node("chivebridge0"), nw.Node("chivebridge1")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	network, err := chive.LoadNetwork(nw.NetworkFile)
	if err != nil {
		t.Fatal(err)
	}
	c, err := chive.New(chive.Config{Network: network, DataDir: t.TempDir(), Bridges: first.Bridge})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	open := func() net.Conn {
		t.Helper()
		conn, err := c.DialContext(ctx, "tcp", nw.Echo)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if end, ok := ctx.Deadline(); ok {
			conn.SetDeadline(end)
		}
		return conn
	}
	works := func(conn net.Conn) error {
		b := []byte{1}
		if _, err := conn.Write(b); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, b)
		return err
	}
	reload := func(bridges ...string) {
		t.Helper()
		cfg := c.Config()
		cfg.Bridges = bridges
		if err := c.Reload(cfg); err != nil {
			t.Fatal(err)
		}
	}
	over := func(n *lab.Node) {
		t.Helper()
		for _, o := range c.Status().Open {
			if len(o.Path) > 0 && o.Path[0] != n.Fingerprint {
				t.Errorf("a circuit begins at %v", o.Path[0])
			}
		}
	}
	one := open()
	if err := works(one); err != nil {
		t.Fatal(err)
	}
	over(first)
	// Another bridge beside it changes nothing for what is open.
	reload(append([]string{second.Bridge[0]}, first.Bridge...)...)
	if err := works(one); err != nil {
		t.Error("a stream over a bridge that stayed:", err)
	}
	if b := c.Status().Bridges; len(b) != 2 {
		t.Errorf("%+v", b)
	}
	reload(second.Bridge...)
	if err := works(one); err == nil || ctx.Err() != nil {
		t.Errorf("a stream over a removed bridge goes on: %v", err)
	}
	two := open()
	if err := works(two); err != nil {
		t.Error(err)
	}
	over(second)
	for _, g := range c.Status().Guards {
		if g.Usable != (g.Fingerprint == second.Fingerprint) {
			t.Errorf("a guard: %+v", g)
		}
	}
	if b := c.Status().Bridges; len(b) != 1 || b[0].Fingerprint != second.Fingerprint {
		t.Errorf("the bridges are %+v", b)
	}
	// The same list again ends nothing.
	reload(second.Bridge...)
	if err := works(two); err != nil {
		t.Error(err)
	}
}
