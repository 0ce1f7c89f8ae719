package client

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/simnet"
)

// TestLinkIsNoBuildTime: how long the link to the guard took to open, for example by a slow
// transport, is no part of the build time from which the timeouts are learned.
func TestLinkIsNoBuildTime(t *testing.T) {
	guard := simnet.New(t, simnet.Options{}).Target
	var connected time.Time
	network := *netdir.Public()
	network.Testing.AllowPrivateAddresses = true
	c := isolated(t, &network, func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		if addr != guard.Addrs[0] {
			return refuse(ctx, addr) // a directory
		}
		select {
		case <-time.After(300 * time.Millisecond): // a slow transport
		case <-ctx.Done():
		}
		connected = time.Now()
		return simnet.Dial(ctx, addr)
	})
	p := &path.Path{Hops: []path.Hop{{Target: guard}}}
	for len(p.Hops) < path.DefaultHops {
		p.Hops = append(p.Hops, path.Hop{Target: simnet.New(t, simnet.Options{}).Target})
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	circ, err := (&building{Client: c, path: p, life: lifeOf(c, p), start: time.Now()}).run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	most := time.Since(connected)
	circ.Close()
	var saved []byte
	c.times.use(func(e *cbt.Estimator) { saved = e.Encode() })
	var got struct{ Bins [][2]uint32 }
	if err := json.Unmarshal(saved, &got); err != nil || len(got.Bins) != 1 {
		t.Fatalf("%v: %s", err, saved)
	}
	const bin = 10 // milliseconds, of which the saved form has the middle
	if learned := time.Duration(got.Bins[0][0]-bin/2) * time.Millisecond; learned > most {
		t.Errorf("learned %v, and the link was connected %v before the circuit was built", learned, most)
	}
}
