package lab_test

import (
	"context"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/lab"
	"github.com/chivenet/chive/lab/labtest"
	"github.com/chivenet/chive/lab/target"
)

// TestDrainingExit: streams that are opened while their circuit's exit is
// shutting down are opened at another, and nobody sees an error.
func TestDrainingExit(t *testing.T) {
	labtest.NoLeaks(t)
	nw := start(t, lab.Options{Relays: 3, Exits: 2, Relay: func(name string, cfg *chive.RelayConfig) { cfg.ShutdownWait = 3 * time.Second }})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := nw.Client.Isolated()
	echo(t, ctx, client.DialContext, nw.Target.Addr(target.Echo))
	c, err := client.DialContext(ctx, "tcp", nw.Target.Addr(target.Echo))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	leaving, staying := nw.Node("chiveexit0"), nw.Node("chiveexit1")
	if leaving.Relay().Status().Streams == 0 {
		leaving, staying = staying, leaving
	}
	if n := leaving.Relay().Status().Streams; n != 1 {
		t.Fatalf("the stream is at neither exit, or %d are", n)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- leaving.Stop() }()
	for moved := false; !moved; {
		c, err := client.DialContext(ctx, "tcp", nw.Target.Addr(target.Echo))
		if err != nil {
			t.Fatal(err)
		}
		moved = staying.Relay().Status().Streams > 0
		c.Close()
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
