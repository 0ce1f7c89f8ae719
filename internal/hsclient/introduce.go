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
	// meetTimeout bounds how long an introduced service may take to come.
	meetTimeout = 30 * time.Second
	// forgive is how long an introduction point's failures are remembered, and
	// maxUnreachable how many failed circuits to it are too many, as in C tor.
	forgive        = 2 * time.Minute
	maxUnreachable = 5
)

// pointState is what went wrong with an introduction point lately.
type pointState struct {
	at          time.Time
	refused     bool // it knows no such service, or cannot be used
	late        bool // it did not answer
	lost        bool // it took an introduction, and the service did not come for a while
	unreachable int  // circuits to it that failed
}

func (s *pointState) unusable(now time.Time) bool {
	return s != nil && now.Sub(s.at) < forgive && (s.refused || s.late || s.unreachable > maxUnreachable)
}

// note changes what is remembered of a point.
func (c *Client) note(p *netdoc.HSIntroPoint, change func(*pointState)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for k, s := range c.points {
		if now.Sub(s.at) >= forgive {
			delete(c.points, k)
		}
	}
	s := c.points[p.Auth]
	if s == nil {
		s = new(pointState)
		c.points[p.Auth] = s
	}
	s.at = now
	change(s)
}

// usable returns the introduction points to try, in a random order, but those that are
// promising first. late says that there is none because none of them answers.
func (c *Client) usable(desc *cached) (out []*netdoc.HSIntroPoint, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	late = true
	for i := range desc.inner.Points {
		p := &desc.inner.Points[i]
		if s := c.points[p.Auth]; !s.unusable(now) {
			out = append(out, p)
		} else {
			late = late && s.late
		}
	}
	shuffle(out)
	return c.likelyFirst(out, now), late
}

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
func (c *Client) terms(desc *cached) circuit.Virtual {
	p, congestion := c.cfg.Network.Flow()
	v := circuit.Virtual{Flow: p, Path: flow.PathOnion}
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
func (c *Client) introduce(ctx context.Context, desc *cached, p *netdoc.HSIntroPoint, circ Circuit, rend *rendezvous, pow *cell.PoW, ahead *draft) error {
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
