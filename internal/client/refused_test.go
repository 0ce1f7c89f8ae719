package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/simnet"
)

// TestGuardRefuses: a guard that answers with DESTROY is there, unless it hibernates or is about
// to end. A flood at a guard must not drive its clients away.
func TestGuardRefuses(t *testing.T) {
	for reason, want := range map[cell.DestroyReason]string{cell.DestroyResourceLimit: "maybe", cell.DestroyHibernating: "no"} {
		target := simnet.New(t, simnet.Options{Accepted: func(c *channel.Circ) { c.Destroy(reason) }}).Target
		network := *netdir.Public()
		network.Testing.AllowPrivateAddresses = true
		c := isolated(t, &network, simnet.Dial)
		now := time.Now()
		c.guards.SetBridges([]guard.Candidate{{ID: target.RelayID, Addrs: target.Addrs, Complete: true, Bridge: true, Ntor: target.Ntor}}, now)
		use, err := c.guards.PickBridge(target.RSA, now)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err = (&building{Client: c, path: &path.Path{Guard: use, Hops: []path.Hop{{Target: target}}}, start: now}).run(ctx)
		var d *channel.DestroyedError
		if !errors.As(err, &d) || d.Reason != reason {
			t.Fatal(err)
		}
		if got := c.guards.Status(now).Guards; len(got) != 1 || got[0].Reachable != want {
			t.Errorf("%v: %+v", reason, got)
		}
	}
}
