// Package clientpage tells package page what a client does, for the client's own dashboard and for
// the page of a network: its figures, its circuits with what protects each hop, and its events. What
// a stream leads to is in none of them.
package clientpage

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/metrics"
	"github.com/chivenet/chive/internal/page"
)

// Client is what a client tells.
type Client interface {
	Status() chive.Status
	Subscribe(chive.EventKinds) (<-chan chive.Event, func())
	WriteMetricsJSON(w io.Writer) error
}

// Figures returns a client's counters, as its metrics have them.
func Figures(c Client) (*page.Figures, error) {
	var text bytes.Buffer
	if err := c.WriteMetricsJSON(&text); err != nil {
		return nil, err
	}
	var all metrics.Snapshot
	if err := json.Unmarshal(text.Bytes(), &all); err != nil {
		return nil, err
	}
	f := new(page.Figures)
	for _, m := range all.Counters {
		switch m.Name {
		case "chive_cells_in_total":
			f.CellsIn = m.Value
		case "chive_cells_out_total":
			f.CellsOut = m.Value
		case "chive_link_in_bytes_total":
			f.BytesIn = m.Value
		case "chive_link_out_bytes_total":
			f.BytesOut = m.Value
		}
	}
	for _, m := range all.Gauges {
		switch m.Name {
		case "chive_circuits_open":
			f.Circuits = m.Value
		case "chive_streams_open":
			f.Streams = m.Value
		case "chive_channels_open":
			f.Links = int(m.Value)
		case "chive_cells_queued":
			f.Queued = int(m.Value)
		}
	}
	return f, nil
}

// Circuits returns a client's open circuits. nodeOf names the node of a fingerprint.
func Circuits(name string, st *chive.Status, nodeOf func(fingerprint string) string) []page.Circuit {
	out := make([]page.Circuit, len(st.Open))
	at := map[uint64]*page.Circuit{}
	for i, c := range st.Open {
		hops := make([]page.Hop, len(c.Path))
		for j, fp := range c.Path {
			h := &hops[j]
			h.Node, h.Label = nodeOf(fp), short(fp)
			if j < len(c.Nicknames) {
				h.Label = cmp.Or(c.Nicknames[j], h.Label)
			}
			if j < len(c.Countries) {
				h.Country = c.Countries[j]
			}
			if j < len(c.Hops) {
				p := c.Hops[j]
				h.Handshake, h.PQ, h.Carriage, h.Layer = p.Handshake, p.PQ, p.Carriage, p.Layer
			}
		}
		out[i] = page.Circuit{ID: c.ID, Client: name, Hops: hops}
		at[c.ID] = &out[i]
	}
	for _, s := range st.Carried {
		if c := at[s.Circuit]; c != nil {
			c.Streams++
			c.Read += s.Read
			c.Written += s.Written
		}
	}
	return out
}

// short is the beginning of a fingerprint, for people.
func short(fp string) string { return fp[:min(8, len(fp))] }

// Follow tells a client's events until ctx ends.
func Follow(ctx context.Context, name string, c Client, heard func(page.Event)) {
	events, stop := c.Subscribe(chive.CircuitEvents | chive.StreamEvents)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-events:
			if !ok {
				<-ctx.Done() // the client has closed; the page may go on
				return
			}
			if out, ok := eventOf(name, e); ok {
				heard(out)
			}
		}
	}
}

func eventOf(name string, e chive.Event) (page.Event, bool) {
	switch e := e.(type) {
	case *chive.CircuitEvent:
		out := page.Event{Time: e.Time, Kind: "circuit", Client: name, ID: e.ID, State: e.State.String(), Purpose: e.Purpose, Hops: e.Hops}
		if n := len(e.Took); n > 0 {
			out.TookMS = e.Took[n-1].Milliseconds()
		}
		return out, true
	case *chive.StreamEvent:
		return page.Event{Time: e.Time, Kind: "stream", Client: name, ID: e.ID, State: e.State.String(), Circuit: e.Circuit}, true
	case *chive.LostEvent:
		return page.Event{Time: e.Time, Kind: "lost", Client: name}, true
	}
	return page.Event{}, false
}

// own is the name of the client itself in its dashboard. No fingerprint is like it.
const own = "this client"

// State is what a client's dashboard shows.
func State(c Client) *page.State {
	st := c.Status()
	s := &page.State{Kind: page.Client, Title: "Client", Time: time.Now(), Links: []page.Link{}, Facts: facts(&st)}
	s.Circuits = Circuits(own, &st, func(fp string) string { return fp })
	me := page.Node{Name: own, Role: "client", Program: "chive", State: page.Running}
	var err error
	if me.Figures, err = Figures(c); err != nil {
		me.Note = "its metrics cannot be read"
	}
	s.Nodes = append(s.Nodes, me)
	seen := map[string]int{}
	add := func(n page.Node) {
		i, ok := seen[n.Name]
		if !ok {
			seen[n.Name] = len(s.Nodes)
			s.Nodes = append(s.Nodes, n)
			return
		}
		s.Nodes[i].Country = cmp.Or(s.Nodes[i].Country, n.Country)
	}
	for i := range st.Guards {
		g := &st.Guards[i]
		note := "reachable: " + g.Reachable
		if g.Confirmed {
			note += ", confirmed"
		}
		if !g.Usable {
			note += ", not usable now"
		}
		add(page.Node{Name: g.Fingerprint, Label: cmp.Or(g.Nickname, short(g.Fingerprint)), Role: "guard", State: page.Elsewhere, Note: note})
	}
	joined := map[[2]string]bool{}
	for _, circuit := range s.Circuits {
		from := own
		for i, h := range circuit.Hops {
			role := "middle"
			switch i {
			case 0:
				role = "guard"
			case len(circuit.Hops) - 1:
				role = "last"
			}
			add(page.Node{Name: h.Node, Label: h.Label, Role: role, State: page.Elsewhere, Country: h.Country})
			if k := [2]string{from, h.Node}; !joined[k] {
				joined[k] = true
				s.Links = append(s.Links, page.Link{A: from, B: h.Node})
			}
			from = h.Node
		}
	}
	return s
}
