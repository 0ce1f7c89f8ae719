package client

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/simnet"
)

// impatient is a client whose circuits may take a second, as its guard's only bridge.
func impatient(t *testing.T, g linkspec.Target, dial func(context.Context, netip.AddrPort) (net.Conn, error)) (*Client, *guard.Use) {
	t.Helper()
	network := *netdir.Public()
	network.Testing.AllowPrivateAddresses = true
	c := isolated(t, &network, dial)
	c.times.use(func(e *cbt.Estimator) {
		p := cbt.DefaultParams()
		p.InitialTimeout = time.Second
		e.SetParams(p)
	})
	now := time.Now()
	c.guards.SetBridges([]guard.Candidate{{ID: g.RelayID, Addrs: g.Addrs, Complete: true, Bridge: true, Ntor: g.Ntor}}, now)
	use, err := c.guards.PickBridge(g.RSA, now)
	if err != nil {
		t.Fatal(err)
	}
	return c, use
}

// TestGuardBlamed: a guard is unreachable if it could not be connected to, and for no other
// reason, whatever the circuit was for. Who floods a guard, or makes circuits and links fail,
// must not drive its clients to other guards. A guard that hibernates ends its links itself.
func TestGuardBlamed(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate) // before the relays end
	relay := func(o simnet.Options) linkspec.Target { return simnet.New(t, o).Target }
	destroy := func(r cell.DestroyReason) linkspec.Target {
		return relay(simnet.Options{Accepted: func(c *channel.CircuitEnd) { c.Destroy(r) }})
	}
	silent := relay(simnet.Options{Onionskin: func() { <-gate }})
	ends := relay(simnet.Options{Accepted: func(c *channel.CircuitEnd) { c.Channel().Close(io.EOF) }})
	stranger, wrongKey := relay(simnet.Options{}), relay(simnet.Options{})
	stranger.Addrs = silent.Addrs
	wrongKey.Ntor[0]++
	noTLS := func(context.Context, netip.AddrPort) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			_, _ = io.ReadFull(far, make([]byte, 5))
		}()
		return near, nil
	}
	for name, c := range map[string]struct {
		guard linkspec.Target
		dial  func(context.Context, netip.AddrPort) (net.Conn, error)
		want  string
	}{
		"refused connection": {silent, refuse, "no"},
		"no TLS":             {silent, noTLS, "no"},
		"another relay":      {stranger, simnet.Dial, "no"},
		"resource limit":     {destroy(cell.DestroyResourceLimit), simnet.Dial, "maybe"},
		"hibernating":        {destroy(cell.DestroyHibernating), simnet.Dial, "maybe"},
		"protocol error":     {destroy(cell.DestroyProtocol), simnet.Dial, "maybe"},
		"silent first hop":   {silent, simnet.Dial, "maybe"},
		"wrong onion key":    {wrongKey, simnet.Dial, "maybe"},
		"link ends":          {ends, simnet.Dial, "maybe"},
	} {
		for what, try := range map[string]func(ctx context.Context, c *Client, use *guard.Use) error{
			"circuit": func(ctx context.Context, c *Client, use *guard.Use) error {
				p := &path.Path{Guard: use, Hops: []path.Hop{{Target: bridgeTarget(use.Guard())}}}
				_, err := (&building{Client: c, path: p, life: lifeOf(c, p), start: time.Now()}).run(ctx)
				return err
			},
			"directory": func(ctx context.Context, c *Client, use *guard.Use) error {
				ctx, cancel := context.WithTimeoutCause(ctx, time.Second, errBuildTimeout)
				defer cancel()
				_, err := newCaches(c).get(ctx, bridgeTarget(use.Guard()), use)
				return err
			},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				client, use := impatient(t, c.guard, c.dial)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := try(ctx, client, use)
				if err == nil {
					t.Fatal("a circuit")
				}
				if got := client.guards.Status(time.Now()).Guards; len(got) != 1 || got[0].Reachable != c.want || use.Decision() != guard.Discard {
					t.Errorf("%+v, after %v", got, err)
				}
			})
		}
	}
}

// TestLaterHopBlamesNoGuard: nor does a relay behind the guard, whatever it does.
func TestLaterHopBlamesNoGuard(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate) // before the relays end
	first := simnet.New(t, simnet.Options{}).Target
	for name, second := range map[string]linkspec.Target{
		"silent":  simnet.New(t, simnet.Options{Onionskin: func() { <-gate }}).Target,
		"refuses": simnet.New(t, simnet.Options{Accepted: func(c *channel.CircuitEnd) { c.Destroy(cell.DestroyConnectFailed) }}).Target,
	} {
		t.Run(name, func(t *testing.T) {
			client, use := impatient(t, first, simnet.Dial)
			p := &path.Path{Guard: use, Hops: []path.Hop{{Target: bridgeTarget(use.Guard())}, {Target: second}}}
			if _, err := (&building{Client: client, path: p, life: lifeOf(client, p), start: time.Now()}).run(t.Context()); err == nil {
				t.Fatal("a circuit")
			}
			if got := client.guards.Status(time.Now()).Guards; len(got) != 1 || got[0].Reachable != "maybe" {
				t.Errorf("%+v", got)
			}
		})
	}
}
