package client

import (
	"testing"
	"time"

	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/simnet"
)

// TestBridgeIsAsked: a bridge that answers for its descriptor, whatever it says, is up, and one that ends the request is down. Neither leaves
// a use of the bridge behind.
func TestBridgeIsAsked(t *testing.T) {
	n := *netdir.Public()
	n.Testing.AllowPrivateAddresses = true
	for text, want := range map[string]string{"HTTP/1.0 404 Not found\r\n\r\n": "yes", "": "no"} {
		g := simnet.New(t, simnet.Options{Streams: says{text: text, open: text != ""}}).Target
		// At rest, so that the test alone asks.
		c, err := New(Config{Network: &n, Dial: simnet.Dial, Rest: true, Live: Live{Bridges: bridgeLines(t, g.Addrs[0].String()+" "+g.RSA.String())}})
		if err != nil {
			t.Fatal(err)
		}
		why := c.bridge.refresh(c.bridge.all[0])
		if got := c.guards.Status(time.Now()).Guards[0]; got.Reachable != want || got.OpenCircuits+got.Tries != 0 {
			t.Errorf("after %q, %v: %+v", text, why, got)
		}
		if err := c.Close(); why == nil || err != nil {
			t.Errorf("%v; the end: %v", why, err)
		}
	}
}
