package lab

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/proxydial"
	"github.com/chivenet/chive/internal/socks"
)

// startClient starts the client and its SOCKS port, and waits until traffic can
// flow.
func (nw *Network) startClient(ctx context.Context) error {
	cfg := nw.opts.Client
	cfg.Network, cfg.DataDir, cfg.Logger = nw.network, filepath.Join(nw.Dir, "client"), nw.opts.Log.With("node", "client")
	c, err := chive.New(cfg)
	if err != nil {
		return err
	}
	nw.onClose(c.Close)
	nw.Client = c
	events, _ := c.Events() // ends with the client
	go nw.follow(events)
	if nw.opts.Processes {
		if err := nw.startClientChild(ctx); err != nil {
			return err
		}
		return nw.awaitClient(ctx)
	}
	ln, err := socks.Listen(nw.opts.SOCKS)
	if err != nil {
		return err
	}
	nw.SOCKS = ln.Addr().String()
	proxy := socks.NewSOCKS(socks.Config{Dialer: proxydial.Dialer{Client: c}, Isolate: isolation.ByClientAddr})
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(ln) }()
	nw.onClose(func() error { return errors.Join(proxy.Close(), <-served) })
	return nw.awaitClient(ctx)
}

func (nw *Network) awaitClient(ctx context.Context) error {
	if err := nw.Client.Wait(ctx); err != nil {
		return fault.New(fault.KindOf(err), "%w (%s)", err, nw.Client.Status().Bootstrap.Problem)
	}
	return nil
}

// maxBuilds is how many circuits' build times are kept.
const maxBuilds = 1024

// follow records how long circuits took to build, until the client ends.
func (nw *Network) follow(events <-chan chive.Event) {
	for ev := range events {
		e, ok := ev.(*chive.CircuitEvent)
		if !ok || e.State != chive.CircuitOpen {
			continue
		}
		nw.mu.Lock()
		if nw.builds == nil || len(nw.builds) == maxBuilds {
			nw.builds = map[uint64][]time.Duration{}
		}
		nw.builds[e.ID] = e.Took
		nw.mu.Unlock()
	}
}
