package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/socks"
)

// startClient starts the client and its SOCKS port, and waits until traffic can
// flow.
func (nw *Network) startClient(ctx context.Context) error {
	cfg := nw.opts.Client
	cfg.Network, cfg.DataDir, cfg.Logger = nw.network, filepath.Join(nw.Dir, "client"), nw.opts.Log.With("node", "client")
	c, err := chive.New(ctx, cfg)
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
	door := socks.NewSOCKS(socks.Config{Dialer: doorDialer{c}, Isolate: socks.DefaultIsolate})
	served := make(chan error, 1)
	go func() { served <- door.Serve(ln) }()
	nw.onClose(func() error { return errors.Join(door.Close(), <-served) })
	return nw.awaitClient(ctx)
}

func (nw *Network) awaitClient(ctx context.Context) error {
	if err := nw.Client.Wait(ctx); err != nil {
		return fault.New(fault.KindOf(err), "%w (%s)", err, nw.Client.Status().Bootstrap.Problem)
	}
	return nil
}

// maxBuilds is how many circuits' building times are remembered.
const maxBuilds = 1024

// follow remembers how long circuits took to build, until the client ends.
func (nw *Network) follow(events <-chan chive.Event) {
	for ev := range events {
		e, ok := ev.(*chive.CircuitEvent)
		if !ok || e.State != chive.Open {
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

// doorDialer joins the SOCKS port to the client.
type doorDialer struct{ c *chive.Client }

func (d doorDialer) Dial(ctx context.Context, r socks.Request) (net.Conn, error) {
	ctx = isolate(ctx, r)
	if len(r.Early) > 0 {
		ctx = chive.WithEarlyData(ctx, r.Early)
	}
	return d.c.DialContext(ctx, "tcp", net.JoinHostPort(r.Host, strconv.Itoa(int(r.Port))))
}

func (d doorDialer) Resolve(ctx context.Context, r socks.Request) ([]socks.Answer, error) {
	return d.lookup(ctx, r.Host, r)
}

func (d doorDialer) ResolvePTR(ctx context.Context, addr netip.Addr, r socks.Request) ([]socks.Answer, error) {
	return d.lookup(ctx, addr.String(), r)
}

func (d doorDialer) lookup(ctx context.Context, what string, r socks.Request) ([]socks.Answer, error) {
	as, err := d.c.Lookup(isolate(ctx, r), what)
	var out []socks.Answer
	for _, a := range as {
		out = append(out, socks.Answer{Addr: a.Addr, Name: a.Name, TTL: uint32(a.TTL / time.Second)})
	}
	return out, err
}

func isolate(ctx context.Context, r socks.Request) context.Context {
	return chive.WithIsolation(ctx, fmt.Sprintf("%+v", r.Isolation))
}
