package lab

import (
	"context"
	"errors"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/target"
)

// startOnion starts an onion service. As a process it is ready when clients can
// connect.
func (n *Node) startOnion(ctx context.Context) error {
	if n.network.opts.Processes {
		return n.startOnionChild(ctx)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.openLocked(); err != nil {
		return err
	}
	l, err := n.client.Listen(ctx, chive.OnionConfig{Targets: map[int]string{80: n.network.target.Addr(target.Web)}, Ports: []int{}})
	if err != nil {
		return fault.New(fault.KindOf(err), "%s: %w", n.Name, err)
	}
	closeClient := n.close
	n.service, n.Onion, n.close = l, l.Address(), func() error { return errors.Join(l.Close(), closeClient()) }
	return nil
}
