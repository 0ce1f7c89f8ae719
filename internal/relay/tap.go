package relay

import (
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
)

// Tap lets the laboratory see what clients do at a relay of a network of its own. No option
// and no public package sets it.
type Tap struct {
	// Protocols are the subprotocol versions in the descriptor, instead of this relay's own: so the
	// relay looks like another program's, and clients treat it as such a one.
	Protocols string
	// Link and Heard are channel.Config's Tap and circuit.ServerConfig's Heard.
	Link  func(*channel.Link)
	Heard func(home *channel.CircuitEnd, m cell.RelayMsg)
}
