package hsservice

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/stream"
)

// maxOpen bounds the streams of a service that are open or wait. No circuit gets more than a part
// of what is free, so that there is room for others.
const maxOpen = 16384

// Conn is a stream that a client opened.
type Conn struct {
	*stream.Stream
	r      *clientCircuit // the circuit that it came on
	s      *Service
	closed atomic.Bool
	first  bool // of its circuit
	port   uint16
	// answer is done when the client has been told that the stream is open, or refused; told is
	// written in it, and says why that failed.
	answer sync.Once
	told   error
}

// newConn counts a stream until it is closed here: a client that ends streams as soon
// as it has begun them still makes the service work for each.
func (s *Service) newConn(st *stream.Stream, r *clientCircuit, port uint16) *Conn {
	s.conns.Add(1)
	s.counts.streams.Add(1)
	r.open.Add(1)
	return &Conn{Stream: st, r: r, first: !r.used.Swap(true), port: port, s: s}
}

// connected tells the client that the stream is open. The next circuits may be built only
// after that: the client waits.
func (c *Conn) connected() error {
	err := c.Connected(netip.Addr{}, 0)
	if c.first {
		c.s.cfg.Network.Met()
	}
	return err
}

// Confirm tells the client that the stream is open, unless it was told before, or refused.
func (c *Conn) Confirm() error {
	c.answer.Do(func() { c.told = c.connected() })
	return c.told
}

// Refuse ends the stream with a reason. A client that was not told that it is open reads the
// reason in the place of that.
func (c *Conn) Refuse(reason cell.EndReason) error {
	var err error
	c.answer.Do(func() {
		c.told = errRefused
		err = fault.Except(fault.Closed, c.Reject(reason, netip.Addr{}, 0))
		if c.first {
			c.s.cfg.Network.Met()
		}
	})
	return errors.Join(err, c.CloseReason(reason))
}

// Close ends the stream.
func (c *Conn) Close() error { return c.CloseReason(cell.EndDone) }

var errRefused = fault.New(fault.Closed, "onion service: the stream was refused: %w", net.ErrClosed)

// CloseReason ends the stream with a reason for the client.
func (c *Conn) CloseReason(reason cell.EndReason) error {
	if !c.closed.Swap(true) {
		c.s.conns.Add(-1)
		c.r.open.Add(-1)
	}
	return c.Stream.CloseReason(reason)
}

// Circuit returns the number of the circuit that the stream came on. Streams of one
// circuit are of one client.
func (c *Conn) Circuit() uint64 { return c.r.number }

// Effort returns the effort of the client's proof of work; zero: there was none.
func (c *Conn) Effort() uint32 { return c.r.effort }

// Port returns the virtual port.
func (c *Conn) Port() uint16 { return c.port }

// CloseCircuit ends the circuit, with all streams of the same client.
func (c *Conn) CloseCircuit() { closeCircuit(c.Hop().Circuit()) }

// portServed reports whether there is anything at a virtual port. Each stream goes to one of the
// port's targets, whichever those of the same client went to, as in C tor.
func (s *Service) portServed(port uint16) (target Target, listened, ok bool) {
	live := s.live.Load()
	if all := live.Targets[port]; len(all) > 0 {
		return all[rand.IntN(len(all))], false, true
	}
	listened = live.Ports == nil || live.Ports[port]
	return Target{}, listened, listened
}

// HandleStream implements circuit.StreamHandler for virtual hops: it runs on a
// channel's reader.
func (s *Service) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	refuse := func(reason cell.EndReason) error { return h.RefuseStream(m.Stream, cell.End{Reason: reason}) }
	b, err := cell.ParseOnionBegin(m.Data)
	if err != nil {
		return refuse(cell.EndTorProtocol)
	}
	target, listened, ok := s.portServed(b.Port)
	if !ok {
		return s.unknownPort(h, m.Stream)
	}
	r := s.clientOn(h.Circuit())
	if r == nil { // the circuit has closed, or will in a moment
		return refuse(cell.EndDestroy)
	}
	if live := s.live.Load(); live.MaxStreams > 0 && r.open.Load() >= int64(live.MaxStreams) {
		s.counts.refusedStreams.Add(1)
		if live.CloseCircuit {
			return fault.New(fault.Resource, "the client opens more than %d streams", live.MaxStreams)
		}
		return refuse(cell.EndResourceLimit)
	}
	if !s.room(r) || listened && s.backlog.full(r) {
		return refuse(cell.EndResourceLimit)
	}
	st, err := stream.Accept(h, m.Stream, "onion client")
	if err != nil {
		return fault.Except(fault.Closed, err)
	}
	st.SetHalfClose(b.Flags&cell.BeginHalfClose != 0)
	c := s.newConn(st, r, b.Port)
	if !listened {
		return s.forward(c, target)
	}
	if !s.live.Load().DeferConnected {
		if err := c.Confirm(); err != nil {
			_ = c.Close() // it is closed; this counts it
			return fault.Except(fault.Closed, err)
		}
	}
	if !s.await(c) {
		return fault.Except(fault.Closed, c.CloseReason(cell.EndResourceLimit))
	}
	return nil
}

// unknownPort ends a stream to a port at which there is nothing. END says no more than of a
// stream that is over, and the circuit closes unless the user wants to keep it, both as C tor
// does: who looks for open ports needs a rendezvous for each that is closed.
func (s *Service) unknownPort(h *circuit.Hop, id uint16) error {
	err := h.RefuseStream(id, cell.End{Reason: cell.EndDone})
	if err == nil && !s.live.Load().AllowUnknownPorts {
		closeCircuit(h.Circuit())
	}
	return err
}

// room reports whether a circuit may have one more stream.
func (s *Service) room(r *clientCircuit) bool {
	free := maxOpen - s.conns.Load()
	return free > 0 && r.open.Load() < 1+free/4
}

// clientOn returns what is known of a circuit, or nil if it has closed, or its client may have been removed.
func (s *Service) clientOn(c *circuit.Circuit) *clientCircuit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clientOnLocked(c)
}

func (s *Service) clientOnLocked(c *circuit.Circuit) *clientCircuit {
	if r := s.clients[c]; r != nil && r.epoch >= s.least {
		return r
	}
	return nil
}
