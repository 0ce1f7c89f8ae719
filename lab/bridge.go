package lab

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/relay"
)

// startBridges starts the bridges, which need a consensus to serve.
func (nw *Network) startBridges(ctx context.Context) error {
	var nodes []*Node
	for i := range nw.opts.Bridges {
		nodes = append(nodes, &Node{Name: fmt.Sprintf("chive%s%d", Bridge, i), Role: Bridge, Program: "chive", network: nw})
	}
	nw.enlist(nodes...)
	nw.onClose(func() error { return each(nodes, (*Node).Stop) })
	return each(nodes, func(n *Node) error { return n.startRelay(ctx) })
}

// transportListen makes every transport of a bridge listen at a free port of
// loopback.
func (n *Node) transportListen() []string {
	var out []string
	for _, l := range n.network.opts.BridgeTransports {
		names, _, _ := strings.Cut(l, " ")
		for name := range strings.SplitSeq(names, ",") {
			out = append(out, name+" 127.0.0.1:0")
		}
	}
	return out
}

// awaitBridge waits until clients can use a bridge of this process, and records
// its lines.
func (n *Node) awaitBridge(ctx context.Context, r *relay.Relay) error {
	lines, err := r.BridgeLines(ctx)
	if err != nil {
		return err
	}
	n.setBridge(lines)
	for {
		if s := r.Status(); !s.Published.IsZero() && !s.ValidAfter.IsZero() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fault.New(fault.Timeout, "%s has no directory to serve: %w", n.Name, context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// setBridge records the lines, the ORPort's first.
func (n *Node) setBridge(lines []string) {
	own := n.ORPort + " " + n.Fingerprint
	n.Bridge = []string{own}
	for _, l := range lines {
		if l != own {
			n.Bridge = append(n.Bridge, l)
		}
	}
}
