package lab

import (
	"context"
	"errors"
	"fmt"

	"github.com/chivenet/chive/internal/fault"
)

// Add starts one more node, of Chive, and returns it: a relay, an exit, a bridge, a client
// with a SOCKS port, or an onion service, which has the target's web server at its
// port 80. It is like the nodes of Start, with a process of its own if they have
// one, and Close ends it. Add does not wait for the network: see WaitListed. After
// an error nothing of the node runs.
//
// An authority cannot be added: the network file, which each node has read, names all
// authorities.
func (nw *Network) Add(ctx context.Context, role Role) (*Node, error) {
	start := map[Role]func(*Node, context.Context) error{
		Relay: (*Node).startRelay, Exit: (*Node).startRelay, Bridge: (*Node).startRelay,
		Client: (*Node).startClient, OnionService: (*Node).startOnion,
	}[role]
	switch {
	case role == Authority:
		return nil, fault.New(fault.Config, "lab: an authority cannot be added to a running network: each node knows all authorities from the start, by the network file")
	case start == nil:
		return nil, fault.New(fault.Config, "lab: %q is no role", role)
	}
	n, err := nw.begin(role)
	if err != nil {
		return nil, err
	}
	if err := start(n, ctx); err != nil {
		return nil, errors.Join(err, n.Stop())
	}
	if role == Relay || role == Exit {
		if err := nw.measured(n); err != nil {
			return nil, errors.Join(err, n.Stop())
		}
	}
	nw.enlist(n)
	return n, nil
}

// begin names a node, and has Close stop it.
func (nw *Network) begin(role Role) (*Node, error) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	if nw.closed {
		return nil, fault.New(fault.Closed, "lab: the network is closed")
	}
	if len(nw.nodes) >= maxNodes {
		return nil, fault.New(fault.Config, "lab: %d nodes are the most", maxNodes)
	}
	if nw.made == nil {
		nw.made = map[Role]int{Relay: nw.opts.Relays, Exit: nw.opts.Exits, Bridge: nw.opts.Bridges}
	}
	n := &Node{Name: fmt.Sprintf("chive%s%d", role, nw.made[role]), Role: role, Program: "chive", network: nw}
	nw.made[role]++
	nw.closes = append(nw.closes, n.Stop)
	return n, nil
}
