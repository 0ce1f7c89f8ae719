package circuit

import (
	"math/rand/v2"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// relayEarlyBudget is how many RELAY_EARLY cells a circuit may carry
// (tor-spec, "handling resource exhaustion: RELAY_EARLY").
const relayEarlyBudget = 8

// clientEarly returns how many of them a client sends: 8 or 7, as C tor's does.
func clientEarly() int8 { return relayEarlyBudget - int8(rand.IntN(2)) }

// CanExtend reports whether a client's circuit has the RELAY_EARLY cells for so many further hops: relays extend by no others.
func (c *Circuit) CanExtend(hops int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(c.early) >= hops
}

// SendEarly is Send in a RELAY_EARLY cell, of which a client's circuit has 7 or 8.
func (h *Hop) SendEarly(cmd cell.RelayCommand, stream uint16, body []byte) error {
	return h.sendCell(cell.CmdRelayEarly, cmd, stream, body)
}

// commandLocked returns the command of the cell that carries a message to h; cc is
// CmdRelayEarly if the message must be in such a cell. The caller holds mu.
func (c *Circuit) commandLocked(h *Hop, cmd cell.RelayCommand, cc cell.Command) (cell.Command, error) {
	if cc != cell.CmdRelayEarly {
		return c.spendLocked(h, cmd), nil
	}
	if c.early == 0 {
		return 0, fault.New(fault.Resource, "send %v: the circuit has used its RELAY_EARLY cells", cmd)
	}
	c.early--
	return cc, nil
}

// spendLocked is commandLocked for a message that may be in either kind of cell. A client,
// which alone has farther hops, spends what building has left on the first messages that
// pass the guard, as C tor's does: else the guard could count the hops, and could tell the
// two programs apart. A fragment must not be in such a cell, and may come before an extend.
func (c *Circuit) spendLocked(h *Hop, cmd cell.RelayCommand) cell.Command {
	if c.early == 0 || h.index == 0 || cmd.Has(cell.Fragment) {
		return cell.CmdRelay
	}
	c.early--
	return cell.CmdRelayEarly
}
