package channel

import "github.com/chivenet/chive/internal/netaddr"

// What is in this file is for the laboratory, which looks at the cells of one circuit for a moment. No other program
// calls it: internal/rules holds that. A circuit that nobody looks at pays nothing.

// OtherEnd returns the end that a circuit has at the peer, whose channels m has; nil: there is none.
func OtherEnd(m *Manager, c *CircuitEnd) *CircuitEnd {
	near := c.ch.link.Conn
	here, there := netaddr.OfPort(near.LocalAddr()), netaddr.OfPort(near.RemoteAddr())
	for _, ch := range m.Channels() {
		if far := ch.link.Conn; netaddr.OfPort(far.RemoteAddr()) == here && netaddr.OfPort(far.LocalAddr()) == there {
			return ch.lookup(c.id)
		}
	}
	return nil
}

// ReceiverOf returns who takes a circuit's cells; nil: nobody does yet.
func ReceiverOf(c *CircuitEnd) Receiver { return c.receiver() }

// Interpose puts what wrap makes of a circuit's receiver in its place, until undo; that must hand on all that comes. It
// returns nil if nobody takes the cells yet, or if somebody else did the same at this moment.
func Interpose(c *CircuitEnd, wrap func(Receiver) Receiver) (undo func()) {
	old := c.recv.Load()
	if old == nil {
		return nil
	}
	mine := wrap(*old)
	if !c.recv.CompareAndSwap(old, &mine) {
		return nil
	}
	return func() { c.recv.CompareAndSwap(&mine, old) }
}
