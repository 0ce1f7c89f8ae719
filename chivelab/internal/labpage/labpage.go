// Package labpage tells package page what a network of the laboratory does: its nodes' counters and
// links, its clients' circuits and events; and it does what the page asks for: it ends a node, makes a
// link worse, and follows a cell through its relays.
package labpage

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/authority"
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
	lab     *lab.Network
	hosts   *Hosts // nil: the nodes use the kernel's network
	outside outside

	mu    sync.Mutex        // guards what follows
	ended map[string]string // the states of nodes that the page has ended
}

// New returns what shows a network. hosts are its nodes', if these have links of their own; else it is nil.
func New(nw *lab.Network, hosts *Hosts) *Network {
	return &Network{lab: nw, hosts: hosts, ended: map[string]string{}}
}

// Config is what a page needs to show the network.
func (n *Network) Config() page.Config {
	c := page.Config{State: n.State, Follow: n.Follow, End: n.End, Trace: n.Trace}
	if n.hosts != nil {
		c.Change = n.hosts.change
	}
	return c
}

// mine is the name of the network's own client, which is no node.
const mine = "client"

// State returns all that the page shows.
func (n *Network) State() *page.State {
	s := &page.State{Kind: page.Network, Title: "Laboratory", Time: time.Now(), Links: []page.Link{}, Circuits: []page.Circuit{}, CanTrace: true, Emulation: n.hosts.emulation()}
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
	var elsewhere []*lab.Node
	for _, node := range nodes {
		out := page.Node{Name: node.Name, Role: string(node.Role), Program: node.Program, State: page.Running, Access: n.hosts.access(node.Name)}
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
		if f, use := inside(node); f != nil {
			out.Figures = f
			for _, l := range use {
				f.Queued += l.Queued
				links.add(node.Name, l, nameOf)
			}
		} else {
			elsewhere = append(elsewhere, node)
		}
		s.Nodes = append(s.Nodes, out)
	}
	n.addOutside(s, links, n.outside.ask(n.lab.Dir, elsewhere, nameOf))
	s.Links = links.all()
	return s
}

// inside returns the figures and links of a relay or an authority of this process; nil: it is in another one.
func inside(node *lab.Node) (*page.Figures, []channel.LinkUse) {
	if r := node.Relay(); r != nil {
		in := relay.InnerOf(r)
		st, use := in.Stats(), in.LinkUse()
		return &page.Figures{CellsIn: st.Channel.CellsIn.Load(), CellsOut: st.Channel.CellsOut.Load(), BytesIn: st.Channel.BytesIn.Load(), BytesOut: st.Channel.BytesOut.Load(),
			Circuits: st.Circuit.Circuits.Load(), Links: len(use), Streams: st.Exit.Streams.Load()}, use
	}
	if a := authority.OfNode(node); a != nil {
		u := a.Use()
		return &page.Figures{CellsIn: u.CellsIn, CellsOut: u.CellsOut, BytesIn: u.BytesIn, BytesOut: u.BytesOut, Circuits: u.Circuits, Links: len(u.Links), Lacks: []string{"streams"}}, u.Links
	}
	return nil, nil
}

// addOutside adds what nodes in processes of their own have told.
func (n *Network) addOutside(s *page.State, links linkSet, all map[string]told) {
	for i := range s.Nodes {
		node := &s.Nodes[i]
		t, ok := all[node.Name]
		if !ok {
			continue
		}
		node.Figures, node.Note = t.figures, t.note
		s.Circuits = append(s.Circuits, t.circuits...)
		for _, peer := range t.peers {
			links.know(node.Name, peer)
		}
	}
}

// addClient adds a client of this process, with its links and circuits.
func (n *Network) addClient(s *page.State, links linkSet, name, role string, c *chive.Client, nameOf func(string) string) {
	out := page.Node{Name: name, Role: role, Program: "chive", State: page.Running, CanEnd: name != mine, Access: n.hosts.access(name)}
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

// know notes a link of which no end that can be read has told.
func (ls linkSet) know(a, b string) {
	k := [2]string{min(a, b), max(a, b)}
	if ls[k] == nil {
		ls[k] = &page.Link{A: k[0], B: k[1]}
	}
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
	n.outside.begin()
	defer n.outside.end()
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
