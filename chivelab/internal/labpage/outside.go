package labpage

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/clientpage"
	"github.com/chivenet/chive/internal/daemon"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/ctor"
	"github.com/chivenet/chive/internal/page"
	"github.com/chivenet/chive/lab"
)

const (
	// outsideTime bounds how long the nodes in processes of their own may take to answer, all together.
	outsideTime = 700 * time.Millisecond
	// outsideAtOnce is how many are asked at a time.
	outsideAtOnce = 16
)

// told is what a node in a process of its own has told.
type told struct {
	figures  *page.Figures
	note     string
	circuits []page.Circuit
	peers    []string // names of nodes to which it has links
}

// outside asks nodes in processes of their own: Chive's by their status, C tor's by their control ports. Connections to
// control ports stay while somebody looks: C tor's log has a line for each.
type outside struct {
	mu     sync.Mutex // guards what follows
	rounds int        // of readers
	ports  map[string]*ctor.Control
}

// begin and end enclose the time in which somebody looks.
func (o *outside) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rounds++
}

func (o *outside) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rounds--
	o.closeLocked()
}

func (o *outside) closeLocked() {
	if o.rounds > 0 {
		return
	}
	for _, c := range o.ports {
		c.Close()
	}
	o.ports = nil
}

// ask asks all nodes, and returns what came in time.
func (o *outside) ask(dir string, nodes []*lab.Node, nameOf func(string) string) map[string]told {
	if len(nodes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), outsideTime)
	defer cancel()
	out := map[string]told{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	places := make(chan struct{}, outsideAtOnce)
	for _, n := range nodes {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			t, err := o.askOne(ctx, dir, n, nameOf)
			if err != nil {
				t = told{note: "no figures: it does not answer"}
			}
			mu.Lock()
			defer mu.Unlock()
			out[n.Name] = t
		})
	}
	wg.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closeLocked()
	return out
}

func (o *outside) askOne(ctx context.Context, dir string, n *lab.Node, nameOf func(string) string) (told, error) {
	if n.Program == "tor" {
		return o.askTor(ctx, filepath.Join(dir, "tor", n.Name), n, nameOf)
	}
	r, err := daemon.ReadStatus(ctx, filepath.Join(dir, n.Name))
	if err != nil {
		return told{}, err
	}
	return toldBy(n, r, nameOf), nil
}

// toldBy reads the status of one of Chive's processes.
func toldBy(n *lab.Node, r *daemon.Report, nameOf func(string) string) told {
	switch {
	case r.Relay != nil:
		st := r.Relay
		return told{figures: &page.Figures{CellsIn: st.CellsIn, CellsOut: st.CellsOut, BytesIn: st.BytesIn, BytesOut: st.BytesOut, Circuits: st.Circuits,
			Links: st.Channels, Streams: st.Streams, Lacks: []string{"queued"}}}
	case r.Proxy != nil:
		st := r.Proxy
		return told{circuits: clientpage.Circuits(n.Name, st, nameOf), figures: &page.Figures{BytesIn: st.LinkIn, BytesOut: st.LinkOut,
			Circuits: int64(st.Circuits), Links: st.Channels, Streams: int64(st.Streams), Lacks: []string{"cells_in", "cells_out", "queued"}}}
	case r.Authority != nil:
		return told{note: "no figures: an authority's status counts relays and votes, and nothing that passes"}
	}
	return told{note: "no figures"}
}

// control returns a connection to the control port of a node of C tor.
func (o *outside) control(ctx context.Context, dir string, n *lab.Node) (*ctor.Control, error) {
	o.mu.Lock()
	c := o.ports[n.Name]
	o.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := ctor.DialControl(ctx, n.Control, filepath.Join(dir, "control_auth_cookie"))
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ports == nil {
		o.ports = map[string]*ctor.Control{}
	}
	o.ports[n.Name] = c
	return c, nil
}

// forget closes a connection that has failed.
func (o *outside) forget(n *lab.Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.ports[n.Name]; c != nil {
		c.Close()
		delete(o.ports, n.Name)
	}
}

// askTor asks a node of C tor for what its control port tells: bytes, links and, of a client, circuits.
func (o *outside) askTor(ctx context.Context, dir string, n *lab.Node, nameOf func(string) string) (told, error) {
	c, err := o.control(ctx, dir, n)
	if err != nil {
		return told{}, err
	}
	t, err := readTor(ctx, c, n, nameOf)
	if err != nil {
		o.forget(n)
	}
	return t, err
}

func readTor(ctx context.Context, c *ctor.Control, n *lab.Node, nameOf func(string) string) (t told, err error) {
	lines, err := c.Command(ctx, "GETINFO traffic/read traffic/written orconn-status")
	if err != nil {
		return t, err
	}
	f := &page.Figures{Lacks: []string{"cells_in", "cells_out", "queued"}}
	t.figures, t.note = f, "by its control port: bytes are those of TLS"
	for _, l := range lines {
		key, value, _ := strings.Cut(l, "=")
		switch key {
		case "traffic/read":
			f.BytesIn, err = strconv.ParseUint(value, 10, 64)
		case "traffic/written":
			f.BytesOut, err = strconv.ParseUint(value, 10, 64)
		case "orconn-status":
			for link := range strings.Lines(value) {
				at, state, _ := strings.Cut(strings.TrimSpace(link), " ")
				if state != "CONNECTED" {
					continue
				}
				f.Links++
				fp, _, _ := strings.Cut(strings.TrimPrefix(at, "$"), "~")
				if name := nameOf(fp); name != fp { // else a client, which has no name
					t.peers = append(t.peers, name)
				}
			}
		}
		if err != nil {
			return t, fault.New(fault.Protocol, "GETINFO %s: %w", key, err)
		}
	}
	if n.Role != lab.Client {
		f.Lacks = append(f.Lacks, "circuits", "streams") // its control port tells of those that it has made itself
		return t, nil
	}
	return t, readTorClient(ctx, c, n, nameOf, &t)
}

// readTorClient adds a client's circuits. What protects their hops C tor does not tell.
func readTorClient(ctx context.Context, c *ctor.Control, n *lab.Node, nameOf func(string) string, t *told) error {
	circuits, err := c.Circuits(ctx)
	if err != nil {
		return err
	}
	streams, err := c.Streams(ctx)
	if err != nil {
		return err
	}
	t.figures.Streams = int64(len(streams))
	for _, made := range circuits {
		id, err := strconv.ParseUint(made.ID, 10, 64)
		if made.Status != "BUILT" || err != nil {
			continue
		}
		t.figures.Circuits++
		out := page.Circuit{ID: id, Client: n.Name, Hops: []page.Hop{}}
		for _, h := range made.Path {
			out.Hops = append(out.Hops, page.Hop{Node: nameOf(h.RSA.String()), Label: h.Name})
		}
		for _, s := range streams {
			if s.Circuit == made.ID {
				out.Streams++
			}
		}
		t.circuits = append(t.circuits, out)
	}
	return nil
}
