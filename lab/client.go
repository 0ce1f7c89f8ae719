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
	c, err := nw.newClient(ownClient)
	if err != nil {
		return err
	}
	nw.onClose(c.Close)
	nw.Client = c
	events, _ := c.Events() // ends with the client
	go nw.follow(events)
	if nw.opts.Processes {
		n := &Node{Name: "chiveclient", Role: Client, Program: "chive", network: nw}
		nw.onClose(n.Stop)
		if err := n.startClientChild(ctx, nw.opts.SOCKS); err != nil {
			return err
		}
		nw.SOCKS = n.SOCKS
		nw.enlist(n)
		return nw.awaitClient(ctx)
	}
	addr, stop, err := serveSOCKS(c, nw.opts.SOCKS)
	if err != nil {
		return err
	}
	nw.SOCKS = addr
	nw.onClose(stop)
	return nw.awaitClient(ctx)
}

// ownClient is the name of the network's own client.
const ownClient = "client"

// newClient makes a client of the network in this process.
func (nw *Network) newClient(name string) (*chive.Client, error) {
	cfg := nw.opts.Client
	cfg.Network, cfg.DataDir, cfg.Logger = nw.network, filepath.Join(nw.Dir, name), nw.opts.Log.With("node", name)
	h, err := nw.hostOf(name)
	if err != nil {
		return nil, err
	}
	return openClient(cfg, h, name == ownClient) // Start waits for that one
}

// serveSOCKS opens a SOCKS port for a client, and returns its address and a function
// that ends it.
func serveSOCKS(c *chive.Client, addr string) (string, func() error, error) {
	ln, err := socks.Listen(addr)
	if err != nil {
		return "", nil, err
	}
	proxy := socks.NewSOCKS(socks.Config{Dialer: proxydial.Dialer{Client: proxydial.Of(c)}, Isolate: isolation.ByClientAddr})
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(ln) }()
	return ln.Addr().String(), func() error { return errors.Join(proxy.Close(), <-served) }, nil
}

// anyPort is an address of which the kernel chooses the port.
const anyPort = "127.0.0.1:0"

// startClient starts a client with a SOCKS port.
func (n *Node) startClient(ctx context.Context) error {
	if n.network.opts.Processes {
		return n.startClientChild(ctx, anyPort)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.openLocked(); err != nil {
		return err
	}
	addr, stop, err := serveSOCKS(n.client, anyPort)
	if err != nil {
		return err
	}
	closeClient := n.close
	n.SOCKS, n.close = addr, func() error { return errors.Join(stop(), closeClient()) }
	return nil
}

// openLocked makes the node's client in this process.
func (n *Node) openLocked() error {
	if err := n.refusedLocked(); err != nil {
		return err
	}
	c, err := n.network.newClient(n.Name)
	if err != nil {
		return fault.New(fault.KindOf(err), "%s: %w", n.Name, err)
	}
	n.client, n.close = c, c.Close
	return nil
}

func (nw *Network) awaitClient(ctx context.Context) error { return awaitClient(ctx, nw.Client) }

// awaitClient waits until traffic can flow.
func awaitClient(ctx context.Context, c *chive.Client) error {
	if err := c.Wait(ctx); err != nil {
		return fault.New(fault.KindOf(err), "%w (%s)", err, c.Status().Bootstrap.Problem)
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
