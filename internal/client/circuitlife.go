package client

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/path"
)

// lives has the circuits and streams of a client, each from its beginning to its end, for controllers.
type lives struct {
	mu       sync.Mutex // guards what follows
	circuits map[uint64]*circuitLife
	streams  map[uint64]*streamLife
	over     bool
}

// circuitLife is one circuit.
type circuitLife struct {
	c    *Client
	stop context.CancelCauseFunc // ends the attempt to build it

	mu     sync.Mutex // guards what follows
	r      CircuitReport
	hops   []Router         // of the whole path
	close  func()           // closes it, once it is built
	circ   *OpenCircuit     // nil: it is not built, or is to a directory
	cells  *circuit.Circuit // what counts its cells; nil: it is not built
	route  []path.Hop       // the path, and what controllers have ordered to be added
	orders chan addition    // what they order; nil: none has steered the circuit
	end    bool             // a controller closes it
	told   bool             // its end was told
}

// begin notes that a circuit is being built.
func (c *Client) begin(id uint64, p *path.Path, purpose Purpose, stable bool, stop context.CancelCauseFunc) *circuitLife {
	l := &circuitLife{c: c, stop: stop, r: CircuitReport{ID: id, Purpose: purpose, Stable: stable, Created: time.Now()}, route: p.Hops}
	for _, h := range p.Hops {
		r := Router{ID: h.Target.RSA}
		if !h.Relay.IsZero() {
			r.Name = h.Relay.Nickname()
		}
		l.hops = append(l.hops, r)
	}
	c.lives.add(l)
	c.watch.circuit(l.report())
	return l
}

func (v *lives) add(l *circuitLife) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.circuits == nil {
		v.circuits = map[uint64]*circuitLife{}
	}
	v.circuits[l.r.ID] = l
}

func (v *lives) circuit(id uint64) *circuitLife {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.circuits[id]
}

func (v *lives) forgetCircuit(id uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.circuits, id)
}

func (v *lives) allCircuits() []*circuitLife {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Values(v.circuits))
}

// report returns the circuit as it is.
func (l *circuitLife) report() CircuitReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reportLocked()
}

func (l *circuitLife) reportLocked() CircuitReport {
	r := l.r
	if l.circ != nil {
		r.Hops = l.circ.Protection()
	}
	return r
}

// step notes a step, and tells it, unless the circuit is over.
func (l *circuitLife) step(change func(*CircuitReport)) {
	if r, ok := l.note(change); ok {
		l.c.watch.circuit(r)
	}
}

// note returns the circuit as it is after the step: when it is told, another step may have come.
func (l *circuitLife) note(change func(*CircuitReport)) (CircuitReport, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told {
		return CircuitReport{}, false
	}
	change(&l.r)
	l.told = l.r.Step == CircuitFailed || l.r.Step == CircuitClosed
	return l.reportLocked(), true
}

// extended notes that there are n hops.
func (l *circuitLife) extended(n int) {
	l.step(func(r *CircuitReport) { r.Step, r.Path = CircuitExtended, l.hops[:n:n] })
}

// further notes a hop that the path did not have, and that is the last one.
func (l *circuitLife) further(next Router) {
	l.grown(next)
	l.whole()
}

// grown notes a hop that the path did not have, and whole that all are there again.
func (l *circuitLife) grown(next Router) {
	l.step(func(r *CircuitReport) { r.Step, r.Path = CircuitExtended, append(slices.Clip(r.Path), next) })
}

func (l *circuitLife) whole() { l.step(func(r *CircuitReport) { r.Step = CircuitBuilt }) }

// follows notes where orders of controllers go.
func (l *circuitLife) follows(orders chan addition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.orders = orders
}

// closes notes how the circuit is closed, now that all of its hops are there.
func (l *circuitLife) closes(circ *OpenCircuit, cells *circuit.Circuit, closing func()) {
	l.mu.Lock()
	l.circ, l.cells, l.close = circ, cells, closing
	end := l.end
	l.mu.Unlock()
	if end {
		closing()
	}
}

// open returns the circuit; nil: it has not all of its hops, or is to a directory.
func (l *circuitLife) open() *OpenCircuit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.circ
}

// built notes that the circuit can be used: a controller may attach streams at once.
func (l *circuitLife) built() {
	l.step(func(r *CircuitReport) { r.Step, r.Path = CircuitBuilt, l.hops })
}

// purpose notes that the circuit is for something else from now on.
func (l *circuitLife) purpose(p Purpose) {
	if r, changed := l.repurpose(p); changed && r.Step <= CircuitBuilt {
		r.Step = CircuitRepurposed
		l.c.watch.circuit(r)
	}
}

// repurpose returns the circuit as it is then. What a controller has made its own stays so when a set takes the circuit.
func (l *circuitLife) repurpose(p Purpose) (CircuitReport, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.r.Purpose
	if was == p || was == ForController && p == InSet {
		return CircuitReport{}, false
	}
	l.r.Purpose = p
	r := l.reportLocked()
	r.Before = was
	return r, true
}

// over notes the end, and why: nil says that this client wanted it.
func (l *circuitLife) over(step CircuitStep, err error) {
	l.c.lives.forgetCircuit(l.r.ID)
	var carried circuit.Carried
	if _, cells := l.counted(); cells != nil {
		carried = cells.Carried()
	}
	l.step(func(r *CircuitReport) {
		r.Carried = carried
		if r.Step < CircuitBuilt {
			step = CircuitFailed
		}
		if r.Step, r.Err = step, err; l.end {
			r.Err = ErrController
		}
	})
}

// ErrController is why a circuit ends that a controller closes.
var ErrController = fault.New(fault.Closed, "a controller closed the circuit")

// shut closes the circuit, whether or not it is built.
func (l *circuitLife) shut() {
	l.mu.Lock()
	closing := l.close
	l.end = true
	l.mu.Unlock()
	l.c.lives.forgetCircuit(l.r.ID)
	if closing != nil {
		closing()
	} else if l.stop != nil {
		l.stop(ErrController)
	}
}

// Circuits returns the circuits that are there or are being built, the oldest first.
func (c *Client) Circuits() []CircuitReport {
	all := c.lives.allCircuits()
	out := make([]CircuitReport, len(all))
	for i, l := range all {
		out[i] = l.report()
	}
	slices.SortFunc(out, func(a, b CircuitReport) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// CountCells says whether circuits count what they carry from now on.
func (c *Client) CountCells(on bool) { c.env.Count(on) }

// Carried returns what each circuit that is built, or was, has carried while that was counted.
func (c *Client) Carried() map[uint64]circuit.Carried {
	out := map[uint64]circuit.Carried{}
	for _, l := range c.lives.allCircuits() {
		if id, cells := l.counted(); cells != nil {
			out[id] = cells.Carried()
		}
	}
	return out
}

func (l *circuitLife) counted() (uint64, *circuit.Circuit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.ID, l.cells
}

// ErrUnknown is the error of a number that no circuit or no stream has.
var ErrUnknown = errors.New("there is none with that number")

// HasCircuit reports whether there is a circuit with a number.
func (c *Client) HasCircuit(id uint64) bool { return c.lives.circuit(id) != nil }

// CloseCircuit closes a circuit; unused: only if it has no streams.
func (c *Client) CloseCircuit(id uint64, unused bool) error {
	l := c.lives.circuit(id)
	if l == nil {
		return ErrUnknown
	}
	if unused && c.lives.carries(id) {
		return nil
	}
	l.shut()
	return nil
}
