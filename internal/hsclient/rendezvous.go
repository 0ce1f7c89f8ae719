package hsclient

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
)

// establishTimeout bounds the wait for RENDEZVOUS_ESTABLISHED.
const establishTimeout = 30 * time.Second

// meetState is where a rendezvous circuit is. Only RENDEZVOUS2 of a handshake that
// was sent out joins a service: a rendezvous point that answers too early or twice
// breaks the protocol, and the circuit closes. If a client took RENDEZVOUS2 before,
// with keys that it had not made yet, the point could play the service.
type meetState uint8

const (
	asked       meetState = iota // ESTABLISH_RENDEZVOUS was sent
	established                  // the point has answered
	introduced                   // INTRODUCE1 was sent, or is about to be: RENDEZVOUS2 may come
	joined                       // the service is at the other end
	failed
)

// rendezvous is a circuit to a rendezvous point.
type rendezvous struct {
	circ   Circuit
	point  *circuit.Hop
	cookie [cell.CookieLen]byte
	met    chan *circuit.Hop // receives the virtual hop

	mu    sync.Mutex // guards the fields below
	state meetState
	hs    *handshake.HSClientState // while introduced
	terms circuit.Virtual
}

// newRendezvous returns a rendezvous at a circuit's last relay, which does not know of it.
func newRendezvous(circ Circuit) *rendezvous {
	r := &rendezvous{circ: circ, point: circ.Engine().Last(), met: make(chan *circuit.Hop, 1)}
	_, _ = rand.Read(r.cookie[:]) // never fails (crypto/rand)
	return r
}

// establish makes the relay a rendezvous point. If it fails, the circuit is closed.
func (r *rendezvous) establish(ctx context.Context) error {
	if err := r.ask(ctx); err != nil {
		r.circ.Close()
		return fault.New(fault.KindOf(err), "onion service: the rendezvous point: %w", err)
	}
	return nil
}

func (r *rendezvous) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, establishTimeout)
	defer cancel()
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
	r.state = established
	r.circ.Engine().Pad(circuit.PadRendezvous)
	return nil
}

// arm waits for the answer to an introduction that is about to be sent.
func (r *rendezvous) arm(hs *handshake.HSClientState, terms circuit.Virtual) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != established {
		return fault.New(fault.Local, "onion service: an introduction in state %d", r.state)
	}
	r.state, r.hs, r.terms = introduced, hs, terms
	r.point.Handle(cell.RelayRendezvous2, r.take)
	return nil
}

// disarm takes an introduction back that the introduction point refused. It
// reports whether the service has not come nevertheless.
func (r *rendezvous) disarm() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != introduced {
		return false
	}
	r.state = established
	r.forgetLocked()
	r.point.Handle(cell.RelayRendezvous2, nil)
	return true
}

// take takes RENDEZVOUS2, on the channel's reader.
func (r *rendezvous) take(m cell.RelayMsg) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != introduced {
		return fault.New(fault.Protocol, "unexpected %v", m.Cmd)
	}
	r.state = failed
	r.point.Handle(m.Cmd, nil)
	defer r.forgetLocked()
	keys, err := r.hs.Finish(m.Data)
	if err != nil {
		return err
	}
	r.terms.Keys = keys
	hop, err := r.circ.Engine().AddVirtual(r.terms)
	if err != nil {
		return err
	}
	r.state = joined
	r.met <- hop
	return nil
}

// close ends the circuit, and forgets the secrets of an introduction that may be under
// way.
func (r *rendezvous) close() {
	r.circ.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetLocked()
}

// forgetLocked forgets the secrets of an introduction.
func (r *rendezvous) forgetLocked() {
	if r.terms.KEM != nil {
		r.terms.KEM.Wipe()
	}
	r.hs, r.terms = nil, circuit.Virtual{}
}
