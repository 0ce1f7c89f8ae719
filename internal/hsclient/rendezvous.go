package hsclient

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/panics"
)

// establishTimeout bounds the wait for RENDEZVOUS_ESTABLISHED.
const establishTimeout = 30 * time.Second

var errNotEstablished = fault.New(fault.Timeout, "the rendezvous point did not answer in time")

// pendingRend is a rendezvous point that is being made.
type pendingRend struct {
	circ chan *rendCircuit // receives once, when there is a circuit; closed after that, or if there is none
	done chan rendResult   // receives once
}

// rendResult is what became of a pendingRend.
type rendResult struct {
	rend *rendCircuit
	err  error
}

// startRendezvous begins to make a rendezvous point, unless there is a spare one.
func (c *Client) startRendezvous(ctx context.Context, stable bool) *pendingRend {
	p := &pendingRend{make(chan *rendCircuit, 1), make(chan rendResult, 1)}
	if r := c.takeSpare(stable); r != nil {
		p.circ <- r
		p.done <- rendResult{r, nil}
		close(p.circ)
		return p
	}
	c.wg.Go(func() {
		defer panics.Recover(c.cfg.Log, func(err error) { p.done <- rendResult{nil, err} })
		defer close(p.circ)
		circ, err := c.cfg.Network.Internal(ctx, stable)
		if err != nil {
			p.done <- rendResult{nil, err}
			return
		}
		rend := newRendCircuit(circ)
		p.circ <- rend
		within, cancel := c.limit(ctx, cbt.RendezvousEstablished, establishTimeout, errNotEstablished)
		defer cancel()
		err = rend.establish(within)
		p.done <- rendResult{rend, err}
	})
	return p
}

// closeLater closes a rendezvous point that nobody needs any more, when it is made.
func (c *Client) closeLater(p *pendingRend) {
	c.wg.Go(func() {
		defer panics.Recover(c.cfg.Log, nil)
		if m := <-p.done; m.err == nil {
			m.rend.close()
		}
	})
}

// rendState is where a rendezvous circuit is. Only RENDEZVOUS2 of a handshake that
// was sent out joins a service: a rendezvous point that answers too early or twice
// breaks the protocol, and the circuit closes. If a client took RENDEZVOUS2 before,
// with keys that it had not made yet, the point could play the service.
type rendState uint8

const (
	rendAsked       rendState = iota // ESTABLISH_RENDEZVOUS was sent
	rendEstablished                  // the point has answered
	rendIntroduced                   // INTRODUCE1 was sent, or is about to be: RENDEZVOUS2 may come
	rendUnanswered                   // as before, and the introduction point has not answered: another may be asked
	rendJoined                       // the service is at the other end
	rendFailed
)

// rendCircuit is a circuit to a rendezvous point.
type rendCircuit struct {
	circ   OwnedCircuit
	point  *circuit.Hop
	cookie [cell.CookieLen]byte
	joined chan *circuit.Hop // receives the virtual hop

	mu    sync.Mutex // guards the fields below
	state rendState
	hs    *handshake.HSClientState // while introduced
	terms circuit.VirtualHop
}

// newRendCircuit returns a circuit whose rendezvous point is a circuit's last relay, which does not know of it yet.
func newRendCircuit(circ OwnedCircuit) *rendCircuit {
	r := &rendCircuit{circ: circ, point: circ.Engine().Last(), joined: make(chan *circuit.Hop, 1)}
	_, _ = rand.Read(r.cookie[:]) // never fails (crypto/rand)
	return r
}

// establish makes the relay a rendezvous point. If it fails, the circuit is closed.
func (r *rendCircuit) establish(ctx context.Context) error {
	if err := r.ask(ctx); err != nil {
		r.circ.Close()
		return fault.New(fault.KindOf(err), "onion service: the rendezvous point: %w", err)
	}
	return nil
}

func (r *rendCircuit) ask(ctx context.Context) error {
	want, err := r.point.Expect(cell.RelayRendezvousEstablished)
	if err != nil {
		return err
	}
	m := cell.EstablishRendezvous{Cookie: r.cookie}
	if err := r.point.Send(cell.RelayEstablishRendezvous, 0, m.Append(nil)); err != nil {
		want.Cancel()
		return err
	}
	if _, _, err := want.Wait(ctx); err != nil {
		return err
	}
	r.state = rendEstablished
	r.circ.Engine().Pad(circuit.PadRendezvous)
	return nil
}

// arm waits for the answer to an introduction that is about to be sent, and not any more for that to one before, which its
// introduction point has not answered.
func (r *rendCircuit) arm(hs *handshake.HSClientState, terms circuit.VirtualHop) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != rendEstablished && r.state != rendUnanswered {
		return fault.New(fault.Local, "onion service: an introduction in state %d", r.state)
	}
	r.forgetLocked()
	r.state, r.hs, r.terms = rendIntroduced, hs, terms
	r.point.Handle(cell.RelayRendezvous2, r.join)
	return nil
}

// leaveUnanswered says that an introduction point has not answered. It reports whether another one may be asked.
func (r *rendCircuit) leaveUnanswered() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == rendIntroduced {
		r.state = rendUnanswered
	}
	return r.state == rendEstablished || r.state == rendUnanswered
}

// disarm takes an introduction back that the introduction point refused. It
// reports whether the service has not come nevertheless.
func (r *rendCircuit) disarm() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != rendIntroduced {
		return false
	}
	r.state = rendEstablished
	r.forgetLocked()
	r.point.Handle(cell.RelayRendezvous2, nil)
	return true
}

// join takes RENDEZVOUS2: the service is the circuit's next hop. It runs on the channel's reader.
func (r *rendCircuit) join(m cell.RelayMsg) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != rendIntroduced && r.state != rendUnanswered {
		return fault.New(fault.Protocol, "unexpected %v", m.Cmd)
	}
	r.state = rendFailed
	r.point.Handle(m.Cmd, nil)
	defer r.forgetLocked()
	keys, err := r.hs.Finish(m.Data)
	if err != nil {
		return err
	}
	r.terms.Keys = keys
	hop, err := r.circ.Engine().AddVirtualHop(r.terms)
	if err != nil {
		return err
	}
	r.state = rendJoined
	r.joined <- hop
	return nil
}

// close ends the circuit, and forgets the secrets of an introduction that may be under
// way.
func (r *rendCircuit) close() {
	r.circ.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetLocked()
}

// forgetLocked forgets the secrets of an introduction.
func (r *rendCircuit) forgetLocked() {
	if r.terms.KEM != nil {
		r.terms.KEM.Wipe()
	}
	r.hs, r.terms = nil, circuit.VirtualHop{}
}
