package lab

import (
	"context"
	"net"
	"net/netip"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/fault"
	innerrelay "github.com/chivenet/chive/internal/relay"
	"github.com/chivenet/chive/relay"
)

// Host is a node's place in a network that is not the kernel's: see Options.Host.
type Host interface {
	// Addr is the node's address, of IPv4.
	Addr() netip.Addr
	// Dial opens a connection.
	Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	// Listen opens a port of the node; port 0 takes any.
	Listen(port uint16) (net.Listener, error)
}

// hostOf returns the host of a node, which it keeps; nil: the kernel's network.
func (nw *Network) hostOf(name string) (Host, error) {
	if nw.opts.Host == nil {
		return nil, nil
	}
	nw.mu.Lock()
	defer nw.mu.Unlock()
	if h := nw.hosts[name]; h != nil {
		return h, nil
	}
	h, err := nw.opts.Host(name)
	if err == nil && h == nil {
		err = fault.New(fault.Config, "Options.Host returned nothing")
	}
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "lab: %s: its host: %w", name, err)
	}
	if nw.hosts == nil {
		nw.hosts = map[string]Host{}
	}
	nw.hosts[name] = h
	return h, nil
}

// openRelay makes a relay on its node's host; nil: the kernel's network.
func openRelay(cfg relay.Config, h Host, nw *Network) (*relay.Relay, error) {
	over := innerrelay.Over{NewRSA: nw.keys.Key}
	if nw.opts.large() {
		over.Documents = &nw.documents
	}
	if h != nil {
		over.Dial, over.OpenPort = h.Dial, func(at netip.AddrPort) (net.Listener, error) { return h.Listen(at.Port()) }
	}
	r, err := innerrelay.NewOver(cfg, over)
	if err != nil {
		return nil, err
	}
	return r.(*relay.Relay), nil
}

// openClient makes a client on its node's host; nil: the kernel's network.
func openClient(cfg chive.Config, h Host, prompt bool) (*chive.Client, error) {
	over := client.Over{Prompt: prompt}
	if h != nil {
		over.Dial = h.Dial
	}
	c, err := client.NewOver(cfg, over)
	if err != nil {
		return nil, err
	}
	return c.(*chive.Client), nil
}

// openPort opens a port of a node: on its host, or on loopback.
func (n *Node) openPort() (net.Listener, error) {
	h, err := n.network.hostOf(n.Name)
	if err != nil {
		return nil, err
	}
	if h != nil {
		ln, err := h.Listen(0)
		return ln, local(err)
	}
	ln, err := net.Listen("tcp4", anyPort)
	return ln, local(err)
}
