package labpage

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/client"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/page"
	"github.com/chivenet/chive/internal/relay"
	"github.com/chivenet/chive/lab"
)

const (
	// traces is how many circuits are tried: one whose relays are not all in this process cannot be followed.
	traces = 4
	// maxTraced bounds the circuits that are looked at: those of a conflux set, and who else is open.
	maxTraced = 64
	// remembers is how many of the last cells a spot keeps.
	remembers = 64
)

// Trace sends an HTTP request of its own to the network's web server, and follows the cell that carries it. Only that
// cell is told of, which a random word shows: what else passed is forgotten.
func (n *Network) Trace(ctx context.Context) (*page.Traced, error) {
	var err error
	for range traces {
		var out *page.Traced
		if out, err = n.traceOnce(ctx); err == nil {
			return out, nil
		}
		if !fault.Is(err, fault.Refused) { // a circuit that nobody can follow
			return nil, err
		}
	}
	return nil, err
}

func (n *Network) traceOnce(ctx context.Context) (*page.Traced, error) {
	target, err := url.Parse(n.lab.URL(1))
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	conn, err := n.lab.Client.Isolated().DialContext(ctx, "tcp", target.Host)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	w, err := n.watchCircuits()
	defer w.stop()
	if err != nil {
		return nil, err
	}
	word := rand.Text()
	q, err := http.NewRequest(http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, fault.Wrap(fault.Local, err)
	}
	q.Header.Set("X-Trace", word)
	q.Header.Set("User-Agent", "chivelab")
	q.Close = true
	if err := ask(conn, q); err != nil {
		return nil, err
	}
	return w.find(word)
}

// ask sends a request, and takes the answer: then the cell has come where it should.
func ask(conn net.Conn, q *http.Request) error {
	if err := q.Write(conn); err != nil {
		return fault.New(fault.Network, "the request was not sent: %w", err)
	}
	a, err := http.ReadResponse(bufio.NewReader(conn), q)
	if err != nil {
		return fault.New(fault.Network, "the request was not answered: %w", err)
	}
	a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return fault.New(fault.Network, "the answer to the request is %s", a.Status)
	}
	return nil
}

// watched are circuits whose relays are looked at.
type watched struct {
	circuits [][]*spot
	ids      []uint64
	undo     []func()
	refused  error // why one of the client's circuits is not among them; nil: all are
}

func (w *watched) stop() {
	for _, f := range w.undo {
		f()
	}
}

// watchCircuits looks at the open circuits of the network's own client. It is an error of kind Refused if none of them can be
// followed.
func (n *Network) watchCircuits() (*watched, error) {
	w := new(watched)
	open := n.lab.Client.Status().Open
	for _, c := range slices.Backward(open[max(0, len(open)-maxTraced):]) {
		if err := n.watchCircuit(w, &c); err != nil {
			w.refused = err
		}
	}
	if len(w.circuits) == 0 {
		return w, fault.New(fault.Refused, "no circuit can be followed: %w", w.refused)
	}
	return w, nil
}

// watchCircuit finds the relays of a circuit, link by link, and looks at what comes to each from the client.
func (n *Network) watchCircuit(w *watched, c *chive.CircuitStatus) error {
	built := client.InnerOf(n.lab.Client).Built(c.ID)
	if built == nil {
		return fault.New(fault.Refused, "circuit %d is gone", c.ID)
	}
	var spots []*spot
	var ends []*channel.CircuitEnd
	near := circuit.HomeOf(built)
	for i, fp := range c.Path {
		node := n.byFingerprint(fp)
		if node == nil || node.Relay() == nil {
			return fault.New(fault.Refused, "a relay of circuit %d is not in this process, where nobody can look", c.ID)
		}
		if near == nil {
			return fault.New(fault.Refused, "circuit %d is gone", c.ID)
		}
		end := channel.OtherEnd(relay.InnerOf(node.Relay()).Channels(), near)
		if end == nil {
			return fault.New(fault.Refused, "circuit %d is gone, or comes to %s in another way than by its link", c.ID, node.Name)
		}
		s := &spot{node: node.Name}
		if i < len(c.Hops) {
			s.layer = c.Hops[i].Layer
		}
		spots, ends = append(spots, s), append(ends, end)
		near = circuit.OnwardOf(channel.ReceiverOf(end))
	}
	for i, end := range ends {
		undo := channel.Interpose(end, func(r channel.Receiver) channel.Receiver {
			spots[i].Receiver = r
			return spots[i]
		})
		if undo == nil {
			return fault.New(fault.Refused, "circuit %d is gone", c.ID)
		}
		w.undo = append(w.undo, undo)
	}
	w.circuits, w.ids = append(w.circuits, spots), append(w.ids, c.ID)
	return nil
}

func (n *Network) byFingerprint(fp string) *lab.Node {
	nodes := n.lab.Nodes()
	if i := slices.IndexFunc(nodes, func(node *lab.Node) bool { return strings.EqualFold(node.Fingerprint, fp) }); i >= 0 {
		return nodes[i]
	}
	return nil
}

// payload is what of a cell goes from end to end: the rest belongs to one link.
type payload = [cell.PayloadLen]byte

// passed is a cell at a relay: before and after the relay took its layer off.
type passed struct {
	at         time.Time
	came, left payload
}

// spot is a relay on a circuit, and what came to it from the client: the relay takes its layer off in place.
type spot struct {
	channel.Receiver
	node, layer string

	mu   sync.Mutex // guards what follows
	last []passed
}

// HandleCells looks at cells before and after the relay had them.
func (s *spot) HandleCells(cells []byte) {
	skip := max(0, len(cells)/cell.Len-remembers)
	now := time.Now()
	seen := make([]passed, 0, len(cells)/cell.Len-skip)
	for at := skip * cell.Len; at < len(cells); at += cell.Len {
		seen = append(seen, passed{at: now, came: *cell.Payload(cells[at:])})
	}
	s.Receiver.HandleCells(cells)
	for i := range seen {
		seen[i].left = *cell.Payload(cells[(skip+i)*cell.Len:])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = append(s.last, seen...)
	s.last = slices.Delete(s.last, 0, max(0, len(s.last)-remembers))
}

// by returns the newest cell that is as wanted; nil: none is.
func (s *spot) by(ok func(*passed) bool) *passed {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range slices.Backward(s.last) {
		if ok(&s.last[i]) {
			c := s.last[i]
			return &c
		}
	}
	return nil
}

// find returns the cell in which an exit read the word. Back from there, what a relay let go is what came to the next.
func (w *watched) find(word string) (*page.Traced, error) {
	for i, spots := range w.circuits {
		last := spots[len(spots)-1]
		c := last.by(func(c *passed) bool { return bytes.Contains(c.left[:], []byte(word)) })
		if c == nil {
			continue
		}
		out := &page.Traced{Client: mine, Circuit: w.ids[i]}
		if err := read(out, &c.left, last.layer); err != nil {
			return nil, err
		}
		for j := len(spots) - 1; ; j-- {
			out.Passed = append(out.Passed, page.Passing{Node: spots[j].node, Layer: spots[j].layer, Time: c.at, Came: hex.EncodeToString(c.came[:]), Left: hex.EncodeToString(c.left[:])})
			if j == 0 {
				break
			}
			came := c.came
			if c = spots[j-1].by(func(c *passed) bool { return c.left == came }); c == nil {
				return nil, fault.New(fault.Refused, "what came to %s did not pass through %s: it came by another circuit", spots[j].node, spots[j-1].node)
			}
		}
		slices.Reverse(out.Passed)
		return out, nil
	}
	if w.refused != nil {
		return nil, fault.New(fault.Refused, "the request took a circuit that cannot be followed: %w", w.refused)
	}
	return nil, fault.New(fault.Refused, "the request took a circuit that nobody looked at")
}

// read says what is in the cell, as the exit read it.
func read(out *page.Traced, p *payload, layer string) error {
	format := cell.RelayV0
	if layer == "cgo" {
		format = cell.RelayV1
	}
	m, err := format.Parse(p)
	if err != nil {
		return err
	}
	out.Command, out.Stream, out.Text = m.Cmd.String(), m.Stream, string(m.Data)
	return nil
}
