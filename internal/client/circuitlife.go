package client

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

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

	mu    sync.Mutex // guards what follows
	r     CircuitReport
	hops  []Router     // of the whole path
	close func()       // closes it, once it is built
	circ  *OpenCircuit // nil: it is not built, or is to a directory
	end   bool         // a controller closes it
}

// begin notes that a circuit is being built.
func (c *Client) begin(id uint64, p *path.Path, purpose Purpose, stable bool, stop context.CancelCauseFunc) *circuitLife {
	l := &circuitLife{c: c, stop: stop, r: CircuitReport{ID: id, Purpose: purpose, Stable: stable, Created: time.Now()}}
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
	r := l.r
	if l.circ != nil {
		r.Hops = l.circ.Protection()
	}
	return r
}

// step notes a step, and tells it.
func (l *circuitLife) step(change func(*CircuitReport)) {
	l.note(change)
	l.c.watch.circuit(l.report())
}

func (l *circuitLife) note(change func(*CircuitReport)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.r)
}

// extended notes that there are n hops.
func (l *circuitLife) extended(n int) {
	l.step(func(r *CircuitReport) { r.Step, r.Path = CircuitExtended, l.hops[:n:n] })
}

// further notes a hop that the path did not have.
func (l *circuitLife) further(next Router) {
	l.step(func(r *CircuitReport) { r.Step, r.Path = CircuitExtended, append(slices.Clip(r.Path), next) })
	l.step(func(r *CircuitReport) { r.Step = CircuitBuilt })
}

// built notes that the circuit can be used, and how it is closed.
func (l *circuitLife) built(circ *OpenCircuit, closing func()) {
	l.mu.Lock()
	l.circ, l.close = circ, closing
	end := l.end
	l.mu.Unlock()
	l.step(func(r *CircuitReport) { r.Step, r.Path = CircuitBuilt, l.hops })
	if end {
		closing()
	}
}

// purpose notes that the circuit is for something else from now on.
func (l *circuitLife) purpose(p Purpose) {
	l.mu.Lock()
	was, step := l.r.Purpose, l.r.Step
	l.r.Purpose = p
	l.mu.Unlock()
	r := l.report()
	r.Step, r.Before = CircuitRepurposed, was
	if was != p && step <= CircuitBuilt {
		l.c.watch.circuit(r)
	}
}

// over notes the end, and why: nil says that this client wanted it.
func (l *circuitLife) over(step CircuitStep, err error) {
	l.c.lives.forgetCircuit(l.r.ID)
	l.step(func(r *CircuitReport) {
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
