package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/lab/proc"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdoc"
)

// Onionskins holds a relay's results with circuits of one hop.
type Onionskins struct {
	Relay     string  `json:"relay"`
	Handshake string  `json:"handshake"` // "ntor", "ntor-v3" or "pq768"
	Circuits  int     `json:"circuits"`
	Seconds   float64 `json:"seconds"`
	CPU       float64 `json:"relay_cpu_s"`
	PerSecond float64 `json:"circuits_per_core_s"` // circuits over the relay's CPU time
}

// askers is how many circuits are built at the same time: enough that the relay
// never waits, and few enough that it drops no onionskin.
const askers = 32

// onionskins makes a client in this process build circuits of one hop at each
// kind of relay, with each handshake.
func (n *relayNet) onionskins(ctx context.Context) ([]Onionskins, error) {
	var out []Onionskins
	for i, node := range []*ctor.Node{n.stock[0], n.chive[0]} {
		t, err := n.onionTarget(ctx, node)
		if err != nil {
			return nil, err
		}
		kinds := []string{"ntor", "ntor-v3"}
		if i == 1 {
			kinds = append(kinds, "pq768") // C tor does not know it
		}
		for _, h := range kinds {
			o := Onionskins{Relay: [2]string{"C tor, " + n.scheduler, "Chive"}[i], Handshake: h, Circuits: n.Onionskins}
			n.Progress(fmt.Sprintf("%s: %d circuits of one hop, %s", o.Relay, o.Circuits, h))
			ctx, cancel := context.WithTimeout(ctx, n.Limit)
			err := o.measure(ctx, t, n.pids[i][0])
			cancel()
			if err != nil {
				return nil, fault.New(fault.KindOf(err), "%s, %s: %w", o.Relay, h, err)
			}
			out = append(out, o)
		}
	}
	return out, nil
}

// onionTarget gets the target of a circuit to the relay from an authority.
func (n *relayNet) onionTarget(ctx context.Context, node *ctor.Node) (t linkspec.Target, err error) {
	c, err := n.tor.Node("auth0").Control(ctx)
	if err != nil {
		return t, err
	}
	defer c.Close()
	text, err := c.GetInfo(ctx, "desc/id/"+node.ID.RSA.String())
	if err != nil {
		return t, err
	}
	d, err := netdoc.ParseRouterDesc([]byte(strings.TrimSpace(text)+"\n"), time.Now())
	if err != nil {
		return t, err
	}
	t.RSA, t.Ed, t.Ntor, t.Proto = d.RSA, d.Ed, d.Ntor, d.Protocols
	t.Addrs = []netip.AddrPort{netip.AddrPortFrom(d.Addr, d.ORPort)}
	return t, nil
}

// measure builds and closes circuits over one channel.
func (o *Onionskins) measure(ctx context.Context, t linkspec.Target, pid int) error {
	log := slog.New(slog.DiscardHandler)
	env := &circuit.Env{Log: log, Now: time.Now}
	m := channel.NewManager(&channel.Config{Log: log, Now: time.Now}, &channel.LinkConfig{}, func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", a.String())
	})
	defer m.Close()
	ch, err := m.Get(ctx, t)
	if err != nil {
		return err
	}
	opts := circuit.HopOptions{Handshake: handshake.Named(o.Handshake)}
	build := func(n int) error {
		var todo atomic.Int64
		todo.Store(int64(n))
		errs := make([]error, askers)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				for errs[i] == nil && todo.Add(-1) >= 0 {
					var c *circuit.Circuit
					if c, errs[i] = circuit.Create(ctx, env, ch, t, opts); errs[i] == nil {
						c.Close(0, fault.New(fault.Closed, "measured"))
					}
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	}
	if err := build(2 * askers); err != nil { // to warm up
		return err
	}
	before, err := proc.CPU(pid)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := build(o.Circuits); err != nil {
		return err
	}
	o.Seconds = time.Since(began).Seconds()
	after, err := proc.CPU(pid)
	if err != nil {
		return err
	}
	o.CPU = (after - before).Seconds()
	o.PerSecond = float64(o.Circuits) / o.CPU
	return nil
}

// WriteOnionskins writes a table.
func WriteOnionskins(w io.Writer, all []Onionskins) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "circuits of one hop\ta second and core\ta second, here")
	for _, o := range all {
		fmt.Fprintf(tw, "%s, %s\t%.0f\t%.0f\n", o.Relay, o.Handshake, o.PerSecond, float64(o.Circuits)/o.Seconds)
	}
	return tw.Flush()
}
