package relay

import (
	"testing"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/simnet"
)

// TestBridgeLooksLikeAClient: the relays to which a bridge extends circuits see a client: no
// identity, no address that it claims, no clock, and no circuits towards it. Otherwise each
// relay could list the bridges. An ordinary relay says who it is.
func TestBridgeLooksLikeAClient(t *testing.T) {
	for name, bridge := range map[string]bool{"a bridge": true, "a relay": false} {
		t.Run(name, func(t *testing.T) {
			came := make(chan *channel.Channel, 1)
			far := simnet.New(t, simnet.Options{Accepted: func(c *channel.CircuitEnd) { came <- c.Channel() }})
			cfg := bridgeConfig(t)
			cfg.Bridge = bridge
			r, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer r.closeListeners()
			defer r.channels.Close()
			near, err := r.channels.Get(within(t), far.Target)
			if err != nil {
				t.Fatal(err)
			}
			create(t, near)
			seen := <-came
			l := seen.Link()
			if pads := r.cfg.padMode() == channel.PadFull; pads != bridge {
				t.Errorf("it pads links to relays: %v", pads)
			}
			if l.PeerAuthenticated == bridge || l.Peer.RSA.IsZero() != bridge || len(l.PeerAddrs) == 0 != bridge || l.ClockSkewKnown == bridge {
				t.Errorf("the next relay sees %+v", l)
			}
			switch got := <-create(t, seen); {
			case bridge && got != cell.DestroyProtocol:
				t.Errorf("a circuit towards the bridge: %v", got)
			case !bridge && got != cell.DestroyNone:
				t.Errorf("a circuit towards the relay: %v", got)
			}
		})
	}
}

// answer receives how a circuit begins; DestroyNone: it was created.
type answer chan cell.DestroyReason

// create asks for a circuit by CREATE_FAST.
func create(t *testing.T, ch *channel.Channel) answer {
	t.Helper()
	a := make(answer, 2)
	c, err := ch.Open(a, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SendControl(cell.CmdCreateFast, make([]byte, 20)); err != nil && !fault.Is(err, fault.Closed) {
		t.Fatal(err)
	}
	return a
}

func (answer) HandleCells([]byte)                                 {}
func (answer) HandleBatchEnd()                                    {}
func (answer) HandleWritable()                                    {}
func (a answer) HandleControl(cell.Command, []byte)               { a <- cell.DestroyNone }
func (a answer) HandleDestroy(reason cell.DestroyReason, _ error) { a <- reason }
