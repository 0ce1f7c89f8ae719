package circuit

import (
	"io"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/layer"
)

// AddRendezvous adds the hop that a client and an onion service have in common, with
// keys from ks. streams takes what the client opens, and is nil at the client.
func (c *Circuit) AddRendezvous(ks io.Reader, o HopOptions, streams StreamHandler) (*Hop, error) {
	newLayer := layer.NewTor1Rendezvous
	if o.CGO {
		newLayer = layer.NewCGORendezvous
	}
	crypto := &relayCrypto{name: "rendezvous", client: clientEnd(func(ks io.Reader) (*layer.Client, error) {
		return newLayer(ks, streams != nil)
	})}
	t := terms{keys: handshake.KeyStream(ks), crypto: crypto}
	params := flow.DefaultParams()
	if o.Congestion {
		t.inc = params.SendmeInc
	}
	h, err := c.newHop(t, HopInfo{Client: true, Onion: true}, &params, flow.PathOnion)
	if err != nil {
		return nil, err
	}
	h.far = cell.ByClient | cell.ByRelay
	if next := c.handle; streams != nil {
		c.handle = func(h *Hop, m cell.RelayMsg, cc cell.Command) error {
			if m.Cmd.Has(cell.Opens) {
				return streams.HandleStream(h, m)
			}
			return next(h, m, cc)
		}
	}
	c.addHop(h)
	return h, nil
}

// NewWaiter returns a waiter for one stream.
func NewWaiter() *Waiter {
	w := new(Waiter)
	w.Wait()
	return w
}

// SendFlow returns how many cells may be sent to the hop now.
func (h *Hop) SendFlow() int {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	return h.send.Available()
}
