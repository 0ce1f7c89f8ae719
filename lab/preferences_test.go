package lab_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/lab/labtest"
	"github.com/chivenet/chive/lab"
)

// TestStreamsOfTheirOwn: streams that want a circuit each have one, to exits and to onion services, also
// beside others with the same key.
func TestStreamsOfTheirOwn(t *testing.T) {
	labtest.NoLeaks(t)
	nw := start(t, lab.Options{Relays: 3, Exits: 2})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := nw.Client.Listen(ctx, chive.OnionConfig{Ports: []int{7}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	circuits := make(chan uint64, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			circuits <- c.(*chive.OnionConn).Circuit()
			go func() { defer c.Close(); io.Copy(io.Discard, c) }()
		}
	}()
	if err := l.WaitPublished(ctx); err != nil {
		t.Fatal(err)
	}
	own := chive.WithIsolateEveryStream(ctx)
	dial := func(ctx context.Context, c *chive.Client) net.Conn {
		t.Helper()
		conn, err := c.DialContext(ctx, "tcp", l.Address()+":7")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	seen := map[uint64]bool{}
	for _, ctx := range []context.Context{ctx, own, own} {
		dial(ctx, nw.Client)
		id := <-circuits
		if seen[id] {
			t.Error("two streams are on one circuit")
		}
		seen[id] = true
	}
	dial(ctx, nw.Client)
	if id := <-circuits; !seen[id] {
		t.Error("the other streams share no circuit")
	}
	events, stop := nw.Client.Events()
	defer stop()
	alone := dial(own, nw.Client)
	id := <-circuits
	alone.Close()
	for ended := false; !ended; { // with its stream
		select {
		case e := <-events:
			c, ok := e.(*chive.CircuitEvent)
			ended = ok && c.ID == id && c.State == chive.CircuitClosed
		case <-time.After(20 * time.Second):
			t.Fatal("the circuit outlives its stream")
		}
	}
	// A country that is not known cannot be chosen, and an onion service has none.
	if conn, err := nw.Client.DialContext(chive.WithExitCountry(ctx, "zz"), "tcp", "example.com:80"); !errors.Is(err, chive.ErrConfig) {
		t.Errorf("%v, %v", conn, err)
	}
	dial(chive.WithIPFamily(chive.WithExitCountry(ctx, "zz"), chive.FamilyIPv6Only), nw.Client)
}
