package lab_test

import (
	"context"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/relay"
)

// TestDrainingExit: while the exit of a circuit shuts down, new streams are
// opened at another exit, without an error. No exit is a guard here: a client keeps to its guard
// while that shuts down and refuses its circuits, and after some of them a stream fails.
func TestDrainingExit(t *testing.T) {
	labtest.NoLeaks(t)
	guards := chive.Config{EntryNodes: []string{"chiverelay0", "chiverelay1", "chiverelay2"}}
	nw := start(t, lab.Options{Relays: 3, Exits: 2, Client: guards, Relay: func(name string, cfg *relay.Config) { cfg.ShutdownWait = 3 * time.Second }})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := nw.Client.Isolated()
	echo(t, ctx, client.DialContext, nw.Echo)
	c, err := client.DialContext(ctx, "tcp", nw.Echo)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	leaving, staying := nw.Node("chiveexit0"), nw.Node("chiveexit1")
	streams := func(n *lab.Node) int64 { return n.Relay().Status().Streams }
	for streams(leaving)+streams(staying) != 1 { // the end of the first one is on its way
		select {
		case <-ctx.Done():
			t.Fatalf("%d and %d streams at the exits", streams(leaving), streams(staying))
		case <-time.After(time.Millisecond):
		}
	}
	if streams(leaving) == 0 {
		leaving, staying = staying, leaving
	}
	stopped := make(chan error, 1)
	go func() { stopped <- leaving.Stop() }()
	for moved := false; !moved; {
		c, err := client.DialContext(ctx, "tcp", nw.Echo)
		if err != nil {
			t.Fatal(err)
		}
		moved = streams(staying) > 0
		c.Close()
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
