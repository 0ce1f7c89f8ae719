package measure

import (
	"context"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
)

// Build is how long circuits of three hops take to build.
type Build struct {
	Total Latency   `json:"total"`
	Hops  []Latency `json:"hops"` // the first hop, and each extension
}

// Bootstrap is how long a client takes from its start until traffic can flow.
type Bootstrap struct {
	Cold float64 `json:"cold_s"`           // with an empty data directory
	Warm float64 `json:"warm_s,omitempty"` // with the directory of an earlier run
}

// NewBuild summarises builds, each the time of its hops in order.
func NewBuild(builds [][]time.Duration) *Build {
	var totals []time.Duration
	var hops [][]time.Duration
	for _, b := range builds {
		var sum time.Duration
		for i, d := range b {
			if i == len(hops) {
				hops = append(hops, nil)
			}
			hops[i] = append(hops[i], d)
			sum += d
		}
		totals = append(totals, sum)
	}
	out := &Build{Total: *NewLatency(totals)}
	for _, h := range hops {
		out.Hops = append(out.Hops, *NewLatency(h))
	}
	return out
}

// Builder builds one circuit, and returns how long each of its hops took.
type Builder func(ctx context.Context) ([]time.Duration, error)

// Builds makes each builder build n circuits, one after the other and in turns.
// Before that, each builds one more circuit, to open the channels.
func Builds(ctx context.Context, n int, builders ...Builder) ([]*Build, error) {
	all := make([][][]time.Duration, len(builders))
	for at := range n + 1 {
		for k := range builders {
			i := (at + k) % len(builders)
			hops, err := builders[i](ctx)
			if err != nil {
				return nil, err
			}
			if at > 0 {
				all[i] = append(all[i], hops)
			}
		}
	}
	out := make([]*Build, len(builders))
	for i := range out {
		out[i] = NewBuild(all[i])
	}
	return out, nil
}

// TorBuilder makes a C tor client build circuits through the given relays, and takes
// the times from events of its control port c. It subscribes to these events. A command and its answer take some
// 0.055 ms, which the times include. Single hops are not to be compared with Chive's: C tor reports a hop after it
// has made and sent the next onionskin, so that the last hop seems the shortest.
func TorBuilder(ctx context.Context, c *ctor.Control, path []*ctor.Node) (Builder, error) {
	events, err := c.Events(ctx, "CIRC")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) ([]time.Duration, error) {
		began := time.Now()
		id, err := c.Extend(ctx, path...)
		if err != nil {
			return nil, err
		}
		hops, err := hopTimes(ctx, events, id, began)
		if err != nil {
			return nil, err
		}
		return hops, c.CloseCircuit(ctx, id)
	}, nil
}

// hopTimes follows one circuit's events until it is built.
func hopTimes(ctx context.Context, events <-chan ctor.Event, id string, began time.Time) ([]time.Duration, error) {
	var hops []time.Duration
	for {
		select {
		case ev, open := <-events:
			if !open {
				return nil, fault.New(fault.Network, "the control port's events ended")
			}
			circ, err := ctor.ParseCircuit(ev.Rest)
			if err != nil {
				return nil, err
			}
			if circ.ID != id {
				continue
			}
			switch circ.Status {
			case "EXTENDED":
				hops = append(hops, ev.At.Sub(began))
				began = ev.At
			case "BUILT":
				return hops, nil
			case "FAILED", "CLOSED":
				return nil, fault.New(fault.Network, "circuit %s: %s", circ.Status, circ.Fields["REASON"])
			}
		case <-ctx.Done():
			return nil, fault.New(fault.Timeout, "circuit build: %w", context.Cause(ctx))
		}
	}
}

// TorBootstrap starts a C tor client twice with one data directory, cold and warm,
// and returns how long each bootstrap took. The client keeps running, for more
// measurements.
func TorBootstrap(ctx context.Context, nw *ctor.Network, extra ...string) (*Bootstrap, *ctor.Node, error) {
	start := func(begin func() (*ctor.Node, error)) (*ctor.Node, float64, error) {
		began := time.Now()
		n, err := begin()
		if err == nil {
			err = n.AwaitBootstrap(ctx)
		}
		return n, time.Since(began).Seconds(), err
	}
	n, cold, err := start(func() (*ctor.Node, error) { return nw.AddClient(ctx, "", extra...) })
	if err != nil {
		return nil, nil, err
	}
	if err := n.Stop(); err != nil {
		return nil, nil, err
	}
	n, warm, err := start(func() (*ctor.Node, error) { return n, n.Start(ctx) })
	if err != nil {
		return nil, nil, err
	}
	return &Bootstrap{Cold: cold, Warm: warm}, n, nil
}
