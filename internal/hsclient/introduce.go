package hsclient

import (
	"context"
	"errors"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/protover"
)

const (
	// introduceTimeout bounds an introduction up to its ACK, with its circuit.
	introduceTimeout = 30 * time.Second
	// rendezvousTimeout bounds how long an introduced service may take to come.
	rendezvousTimeout = 30 * time.Second
)

// target checks an introduction point's link specifiers, which a stranger wrote.
func (c *Client) target(p *netdoc.HSIntroPoint) (linkspec.Target, error) {
	t, err := linkspec.TargetOf(p.Specs)
	if err != nil {
		return t, err
	}
	for _, a := range t.Addrs {
		if !c.cfg.Private && !netaddr.Public(a.Addr()) {
			return t, fault.New(fault.Refused, "the introduction point has a private address")
		}
	}
	t.Ntor = p.Onion
	return t, c.cfg.Network.Refused(&t)
}

// terms returns what a descriptor and the consensus agree on for the virtual hop.
func (c *Client) terms(desc *cached) circuit.VirtualHop {
	p, congestion := c.cfg.Network.Flow()
	v := circuit.VirtualHop{Flow: p, Path: flow.PathOnion}
	if desc.inner.Single {
		v.Path = flow.PathExit
	}
	if inc := int(desc.inner.SendmeInc); congestion && desc.inner.FlowControl.Has(protover.FlowCtrl, protover.FlowCtrlCC) && p.AcceptIncrement(inc) {
		v.SendmeInc = inc
		v.CGO = desc.inner.CGO && c.cfg.CGO
	}
	v.HalfClose = desc.inner.HalfClose
	return v
}

// errRefused: the introduction point answered that it cannot introduce.
var errRefused = errors.New("the introduction point refuses")

// introduce has the service told, through one introduction point, where this
// client waits. rend waits for the service afterwards. pow may be nil; ahead is the
// introduction if it was made before, or nil.
func (c *Client) introduce(ctx context.Context, desc *cached, p *netdoc.HSIntroPoint, circ OwnedCircuit, rend *rendCircuit, pow *cell.PoW, ahead *draft) error {
	if pow != nil || ahead == nil || ahead.rend != rend {
		ahead.drop()
		var err error
		if ahead, err = c.draft(desc, p, rend, pow); err != nil {
			return err
		}
	}
	last := circ.Engine().Last()
	want, err := last.Expect(cell.RelayIntroduceAck)
	if err != nil {
		ahead.drop()
		return err
	}
	if err := rend.arm(ahead.hs, ahead.terms); err != nil { // the service may be faster than the ACK
		ahead.drop()
		want.Cancel()
		return err
	}
	if err := last.Send(cell.RelayIntroduce1, 0, ahead.body); err != nil {
		want.Cancel()
		return err
	}
	circ.Engine().Pad(circuit.PadIntroduction)
	_, answer, err := want.Wait(ctx)
	if err != nil {
		return err
	}
	ack, err := cell.ParseIntroduceAck(answer)
	if err != nil {
		return err
	}
	if ack.Status != cell.IntroduceOK {
		return fault.New(fault.Network, "onion service: %w: %v", errRefused, ack.Status)
	}
	return nil
}
