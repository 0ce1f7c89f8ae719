// Package labpage tells package page what a network of the laboratory does: its nodes' counters and
// links, its clients' circuits and events; and it ends a node, as the page asks.
package labpage

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/clientpage"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/page"
	"github.com/chivenet/chive/internal/relay"
	"github.com/chivenet/chive/lab"
)

// Network is a network that a page shows.
type Network struct {
	lab *lab.Network

	mu    sync.Mutex        // guards what follows
	ended map[string]string // the states of nodes that the page has ended
}

// New returns what shows a network.
func New(nw *lab.Network) *Network { return &Network{lab: nw, ended: map[string]string{}} }

// mine is the name of the network's own client, which is no node.
const mine = "client"

// State returns all that the page shows.
func (n *Network) State() *page.State {
	s := &page.State{Kind: page.Network, Title: "Laboratory", Time: time.Now(), Links: []page.Link{}, Circuits: []page.Circuit{}}
	names := map[string]string{} // by fingerprints in upper case
	nodes := n.lab.Nodes()
	for _, node := range nodes {
		if node.Fingerprint != "" {
			names[strings.ToUpper(node.Fingerprint)] = node.Name
		}
	}
	nameOf := func(fp string) string { return cmp.Or(names[strings.ToUpper(fp)], fp) }
	links := linkSet{}
	n.addClient(s, links, mine, "client", n.lab.Client, nameOf)
	for _, node := range nodes {
		out := page.Node{Name: node.Name, Role: string(node.Role), Program: node.Program, State: page.Running}
		if state := n.stateOf(node.Name); state != "" {
			out.State = state // the node is not asked: it answers once it has ended
			s.Nodes = append(s.Nodes, out)
			continue
		}
		out.CanEnd = true
		if c := node.Client(); c != nil {
			n.addClient(s, links, node.Name, string(node.Role), c, nameOf)
			continue
		}
		if r := node.Relay(); r != nil {
			st := r.Status()
			out.Figures = &page.Figures{CellsIn: st.CellsIn, CellsOut: st.CellsOut, BytesIn: st.BytesIn, BytesOut: st.BytesOut, Circuits: st.Circuits, Links: st.Channels, Streams: st.Streams}
			for _, l := range relay.InnerOf(r).LinkUse() {
				out.Figures.Queued += l.Queued
				links.add(node.Name, l, nameOf)
			}
		} else if node.Role != lab.Authority {
			out.Note = "it runs in a process of its own: its counters are not read here"
		}
		s.Nodes = append(s.Nodes, out)
	}
	s.Links = links.all()
	return s
}

// addClient adds a client of this process, with its links and circuits.
func (n *Network) addClient(s *page.State, links linkSet, name, role string, c *chive.Client, nameOf func(string) string) {
	out := page.Node{Name: name, Role: role, Program: "chive", State: page.Running, CanEnd: name != mine}
	var err error
	if out.Figures, err = clientpage.Figures(c); err != nil {
		out.Note = "its metrics cannot be read"
	}
	s.Nodes = append(s.Nodes, out)
	st := c.Status()
	s.Circuits = append(s.Circuits, clientpage.Circuits(name, &st, nameOf)...)
	for _, l := range client.InnerOf(c).LinkUse() {
		links.add(name, l, nameOf)
	}
}

// linkSet has one link for each pair of nodes.
type linkSet map[[2]string]*page.Link

// add counts a link that a node tells. Both ends of a link between relays tell of it: that with
// the lesser name counts. A relay knows no client: that one tells.
func (ls linkSet) add(name string, l channel.LinkUse, nameOf func(string) string) {
	if l.Peer.IsZero() {
		return
	}
	peer := nameOf(l.Peer.String())
	k := [2]string{min(name, peer), max(name, peer)}
	at := ls[k]
	switch {
	case at == nil:
		at = &page.Link{A: name, B: peer, Measured: true}
		ls[k] = at
	case name > at.A:
		return
	case name < at.A:
		*at = page.Link{A: name, B: peer, Measured: true}
	}
	at.BytesIn += l.In // a pair may have more than one
	at.BytesOut += l.Out
	at.Queued += l.Queued
}

func (ls linkSet) all() []page.Link {
	out := make([]page.Link, 0, len(ls))
	for _, l := range ls {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b page.Link) int { return cmp.Or(strings.Compare(a.A, b.A), strings.Compare(a.B, b.B)) })
	return out
}

// Follow tells the events of the network's own client.
func (n *Network) Follow(ctx context.Context, heard func(page.Event)) {
	clientpage.Follow(ctx, mine, n.lab.Client, heard)
}

// End ends a node, as a machine that is switched off would: its links end.
func (n *Network) End(name string) error {
	nodes := n.lab.Nodes()
	i := slices.IndexFunc(nodes, func(node *lab.Node) bool { return node.Name == name })
	if i < 0 {
		return fault.New(fault.Config, "no node has this name")
	}
	if !n.mark(name) {
		return fault.New(fault.Config, "%s has ended, or is ending", name)
	}
	err := nodes[i].Kill()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended[name] = page.Ended
	if err != nil {
		return fault.New(fault.KindOf(err), "%s has ended: %w", name, err)
	}
	return nil
}

// mark says that a node is ending; false: it was ended before.
func (n *Network) mark(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended[name] != "" {
		return false
	}
	n.ended[name] = page.Ending
	return true
}

func (n *Network) stateOf(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended[name]
}
