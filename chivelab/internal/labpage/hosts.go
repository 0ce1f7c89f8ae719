package labpage

import (
	"fmt"
	"net/netip"
	"sync"

	"github.com/chivenet/chive/chivelab/internal/links"
	"github.com/chivenet/chive/chivelab/internal/linkstack"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/page"
	"github.com/chivenet/chive/lab"
)

// Hosts is an emulated network whose links a page can change. Each node of a lab.Network has a host there, behind a link
// of its own, which takes no time and loses nothing until somebody changes it.
type Hosts struct {
	net *links.Net

	mu    sync.Mutex // guards what follows
	hosts map[string]*host
}

// host is a node's, with the rules of its link.
type host struct {
	*linkstack.Host
	rules page.Rules
}

// NewHosts returns a network without hosts. Close ends it, after the nodes have ended.
func NewHosts() *Hosts { return &Hosts{net: links.NewNet(1), hosts: map[string]*host{}} }

// Host makes the host of a node, for lab.Options.
func (h *Hosts) Host(name string) (lab.Host, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := len(h.hosts) + 1
	made, err := linkstack.Attach(h.net, netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}), links.Access{})
	if err != nil {
		return nil, err
	}
	h.hosts[name] = &host{Host: made}
	return made, nil
}

// change gives both directions of a node's link other rules.
func (h *Hosts) change(name string, r page.Rules) error {
	rules := links.Rules{Rate: r.Rate, Delay: r.Delay, Loss: r.Loss}
	if err := rules.Check(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.hosts[name]
	if at == nil {
		return fault.New(fault.Config, "no node has this name, or its link is not emulated")
	}
	for _, l := range []*links.Line{at.Port().Up(), at.Port().Down()} {
		if err := l.Change(rules); err != nil {
			return err
		}
	}
	at.rules = r
	return nil
}

// access says what a node's link is like, and what it has carried; nil: it is not emulated.
func (h *Hosts) access(name string) *page.Access {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.hosts[name]
	if at == nil {
		return nil
	}
	out := &page.Access{DelayMS: float64(at.rules.Delay.Microseconds()) / 1000, Loss: at.rules.Loss * 100, Rate: float64(at.rules.Rate) / 1000}
	for _, l := range []*links.Line{at.Port().Up(), at.Port().Down()} {
		out.Lost += l.Count(links.Lost) + l.Count(links.Full)
		out.Packets += l.Count(links.Passed)
	}
	out.Packets += out.Lost
	return out
}

// emulation says what can be done to links.
func (h *Hosts) emulation() *page.Emulation {
	if h == nil {
		return &page.Emulation{Note: "The nodes of this network use the kernel's loopback: no link of theirs can be made worse. With --emulate-links they have emulated ones."}
	}
	out := &page.Emulation{On: true, Note: "Delay, loss and rate hold for both directions of a node's own link, which all its connections share."}
	if late := h.net.Lateness(); (links.Bound{}).Refuse(late) != nil {
		out.Note += fmt.Sprintf(" This machine is too slow to emulate them well: packets were %v.", late)
	}
	return out
}

// Close ends all hosts.
func (h *Hosts) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, at := range h.hosts {
		at.Close()
	}
	h.net.Close()
}
