package circuit

import (
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// paddingNegotiate begins or ends a padding machine, at a relay. What a client can make
// a relay send is bounded: see maxPaddings. A request beyond that, or for a machine that
// does not exist, is answered with an error.
func paddingNegotiate(h *Hop, msg cell.RelayMsg, _ cell.Command) error {
	m, err := cell.ParseCircPaddingNegotiate(msg.Data)
	if err != nil {
		return err
	}
	p := h.c.padder(h)
	if p == nil {
		return nil // the circuit has closed
	}
	var count uint32
	begun := false
	answer := cell.CircPaddingNegotiated{Command: m.Command, OK: true, Machine: m.Machine, Counter: m.Counter}
	switch {
	case m.Command == cell.PaddingStop:
		ok, known := p.stop(PaddingMachine(m.Machine), m.Counter)
		if !known {
			return fault.New(fault.Protocol, "%v: STOP for a padding machine that was not begun", msg.Cmd)
		}
		if !ok {
			return nil // it has ended: the two STOP messages have crossed
		}
	case int(m.Machine) >= len(paddingMachines):
		answer.OK = false
	default:
		count, begun = p.begin(PaddingMachine(m.Machine), &paddingMachines[m.Machine].relay)
		answer.OK = begun
	}
	err = h.Send(cell.RelayPaddingNegotiated, 0, answer.Append(nil))
	if begun {
		p.wait(count)
	}
	return fault.Except(fault.Closed, err)
}
