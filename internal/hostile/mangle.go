package hostile

import "github.com/chivenet/chive/internal/cell"

// mangle changes the next cells that are sent, as an operation selected. The
// zero value changes nothing.
type mangle struct {
	what byte
	x, y byte
	held []byte
}

// The ways to change cells.
const (
	mangleNone  = iota
	mangleFlip  // byte x of the first cell
	mangleDrop  // they are encrypted but never sent
	mangleHold  // they are sent after the next ones
	mangleTwice // each is sent twice
	mangleCut   // their last bytes are sent with the next cells
	mangleCmd   // the link command is changed
	mangleCirc  // the circuit is changed
	mangleKinds
)

func (m *mangle) set(i Insn) { m.what, m.x, m.y = i.A%mangleKinds, i.B, i.C }

func (m *mangle) apply(cells []byte) []byte {
	if len(cells) == 0 {
		return cells
	}
	what := m.what
	m.what = mangleNone
	held := m.held
	m.held = nil
	switch what {
	case mangleFlip:
		at := (int(m.x)*2 + int(m.y)&1) % len(cells)
		cells[at] ^= m.y | 1
	case mangleDrop:
		cells = nil
	case mangleHold:
		m.held = cells
		return held
	case mangleTwice:
		cells = append(cells[:len(cells):len(cells)], cells...)
	case mangleCut:
		k := len(cells) - min(len(cells), 1+int(m.x))
		m.held = cells[k:]
		return append(held, cells[:k]...)
	case mangleCmd:
		cells[4] = m.x
	case mangleCirc:
		cell.SetCircID(cells, cell.CircID(cells)^uint32(m.x)<<(m.y%32))
	}
	return append(held, cells...)
}
