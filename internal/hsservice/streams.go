package hsservice

import (
	"net/netip"
	"sync"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/stream"
)

const (
	// backlog is how many streams wait for Accept; more are refused.
	backlog = 256
	// maxOpen bounds the streams of a service that are open or wait. No circuit gets
	// more than a part of what is free, so that there is room for others.
	maxOpen = 8192
)

// Conn is a stream that a client opened.
type Conn struct {
	*stream.Stream
	circuit uint64
	port    uint16
	s       *Service
	once    sync.Once
}

// Close ends the stream.
func (c *Conn) Close() error { return c.CloseReason(cell.EndDone) }

// CloseReason ends the stream with a reason for the client.
func (c *Conn) CloseReason(reason cell.EndReason) error {
	c.once.Do(func() { c.s.conns.Add(-1) })
	return c.Stream.CloseReason(reason)
}

// Circuit returns the number of the circuit that the stream came on. Streams of one
// circuit are of one client.
func (c *Conn) Circuit() uint64 { return c.circuit }

// Port returns the virtual port.
func (c *Conn) Port() uint16 { return c.port }

// CloseCircuit ends the circuit, with all streams of the same client.
func (c *Conn) CloseCircuit() { closeCircuit(c.Hop().Circuit()) }

// Accept returns the next stream to a port of Config.Ports. The client has been told
// that it is open.
func (s *Service) Accept() (*Conn, error) {
	select {
	case <-s.ctx.Done():
	default:
		select {
		case c := <-s.backlog:
			return c, nil
		case <-s.ctx.Done():
		}
	}
	for {
		select {
		case c := <-s.backlog:
			_ = c.Close() // its circuit is closed
		default:
			return nil, errClosed
		}
	}
}

// serves reports whether there is anything at a virtual port.
func (s *Service) serves(port uint16) (target Target, listened, ok bool) {
	if target, ok = s.cfg.Targets[port]; ok {
		return target, false, true
	}
	listened = s.cfg.Ports == nil || s.cfg.Ports[port]
	return Target{}, listened, listened
}

// HandleStream implements circuit.StreamHandler for virtual hops: it runs on a
// channel's reader.
func (s *Service) HandleStream(h *circuit.Hop, m cell.RelayMsg) error {
	refuse := func(reason cell.EndReason) error {
		end := cell.End{Reason: reason}
		return fault.Except(fault.Closed, h.Send(cell.RelayEnd, m.Stream, end.Append(nil)))
	}
	port, err := cell.ParseOnionBegin(m.Data)
	if err != nil {
		return refuse(cell.EndTorProtocol)
	}
	target, listened, ok := s.serves(port)
	if !ok {
		return refuse(cell.EndDone) // as C tor, which does not tell a scanner more
	}
	open := h.Streams()
	if s.cfg.MaxStreams > 0 && open >= s.cfg.MaxStreams {
		if s.cfg.CloseCircuit {
			return fault.New(fault.Resource, "the client opens more than %d streams", s.cfg.MaxStreams)
		}
		return refuse(cell.EndResourceLimit)
	}
	if free := maxOpen - int(s.conns.Load()); open >= 1+free/4 || listened && len(s.backlog) == cap(s.backlog) {
		return refuse(cell.EndResourceLimit)
	}
	st, err := stream.Accept(h, m.Stream, "onion client")
	if err != nil {
		return fault.Except(fault.Closed, err)
	}
	c := &Conn{Stream: st, circuit: s.number(h.Circuit()), port: port, s: s}
	s.conns.Add(1)
	if !listened {
		return s.forward(c, target)
	}
	if err := c.Connected(netip.Addr{}, 0); err != nil {
		_ = c.Close() // it is closed; this counts it
		return fault.Except(fault.Closed, err)
	}
	select {
	case s.backlog <- c:
		return nil
	default:
		return fault.Except(fault.Closed, c.CloseReason(cell.EndResourceLimit))
	}
}

func (s *Service) number(c *circuit.Circuit) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.rends[c]; r != nil {
		return r.number
	}
	return 0
}
