package circuit

import (
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/protover"
)

// paddingHop is the hop that pads with a client: the second one, behind the guard that
// must not see what kind of circuit it is.
const paddingHop = 1

// Pad begins a machine on a client's circuit: it asks the second relay for its part. It
// reports whether that was done: the relay must have advertised it, and neither the
// consensus nor the user may have turned padding off.
func (c *Circuit) Pad(m PaddingMachine) bool {
	hops := c.Hops()
	if len(hops) <= paddingHop || !c.env.Padding.begins() {
		return false
	}
	h := hops[paddingHop]
	if !h.info.Client || !h.info.Target.Proto.Has(protover.Padding, protover.PaddingHS) {
		return false
	}
	p := c.padder(h)
	if p == nil {
		return false
	}
	count, ok := p.begin(m, &paddingMachines[m].client)
	if !ok {
		return false
	}
	ask := cell.CircPaddingNegotiate{Command: cell.PaddingStart, Machine: uint8(m), Counter: count}
	if h.Send(cell.RelayPaddingNegotiate, 0, ask.Append(nil)) != nil {
		return false // the circuit has closed
	}
	p.wait(count)
	return true
}

// Padded reports whether a machine was begun on the circuit.
func (c *Circuit) Padded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pads != nil
}

// paddingNegotiated takes the relay's answer, at a client. Each machine that was asked
// for has one, and one STOP.
func paddingNegotiated(h *Hop, msg cell.RelayMsg, _ cell.Command) error {
	p := h.c.paddingWith(h)
	if p == nil {
		return h.unexpected(msg.Cmd)
	}
	m, err := cell.ParseCircPaddingNegotiated(msg.Data)
	if err != nil {
		return err
	}
	if !p.answered() {
		return fault.New(fault.Protocol, "%v, more than the padding machines need", msg.Cmd)
	}
	if m.Command == cell.PaddingStop || !m.OK {
		p.stop(PaddingMachine(m.Machine), m.Counter)
	}
	return nil
}

// paddingWith returns the circuit's padder if its other end is h.
func (c *Circuit) paddingWith(h *Hop) *padder {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pads == nil || c.pads.h != h {
		return nil
	}
	return c.pads
}

// answered counts an answer of the relay; false if there are too many.
func (p *padder) answered() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers--
	return p.answers >= 0
}

// dropAtClient takes a DROP cell, at a client or an onion service.
func dropAtClient(h *Hop, m cell.RelayMsg, _ cell.Command) error {
	c := h.c
	if c.drops++; c.drops > maxDrops {
		return fault.New(fault.Protocol, "more than %d %v cells", maxDrops, m.Cmd)
	}
	if p := c.paddingWith(h); p != nil {
		p.heard()
		c.countDelivered(len(m.Data))
	}
	return nil
}
