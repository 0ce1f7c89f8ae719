package circuit

import "github.com/chivenet/chive/internal/channel"

// What is in this file is for the laboratory, as channel.Interpose is: with it a circuit is followed from node to node.

// HomeOf returns the circuit's end toward the client or, at the client, toward the guard.
func HomeOf(c *Circuit) *channel.CircuitEnd { return c.home.Load() }

// OnwardOf returns the end toward the next relay of the circuit whose cells r takes from the client; nil: it goes no further.
func OnwardOf(r channel.Receiver) *channel.CircuitEnd {
	if s, ok := r.(homeSide); ok {
		return s.c.partner.Load()
	}
	return nil
}
