package circuit

import (
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
)

// establishRendezvous takes ESTABLISH_RENDEZVOUS from a client, whose circuit waits
// for the service that knows the cookie.
func establishRendezvous(h *Hop, msg cell.RelayMsg, _ cell.Command) error {
	if err := h.ordinary(msg.Cmd); err != nil {
		return err
	}
	s := h.c.server.s
	if !h.c.MultiHop() && s.hsParams().RefuseSingleHop {
		return nil // without an answer, as C tor: the client has to wait for nothing
	}
	m, err := cell.ParseEstablishRendezvous(msg.Data)
	if err != nil {
		return err
	}
	if len(msg.Data) != cell.CookieLen {
		return fault.New(fault.Protocol, "ESTABLISH_RENDEZVOUS of %d bytes", len(msg.Data))
	}
	if !s.hs.addRend(m.Cookie, h) {
		return fault.New(fault.Protocol, "ESTABLISH_RENDEZVOUS: another circuit waits with this cookie")
	}
	h.c.becomes(hsRendezvous)
	h.c.OnClose(func(error) { s.hs.dropRend(m.Cookie, h) })
	return fault.Except(fault.Closed, h.Send(cell.RelayRendezvousEstablished, 0, nil))
}

// rendezvous1 takes RENDEZVOUS1 from a service: it joins this circuit with the
// client's that waits, and sends the client the service's part of the handshake.
func rendezvous1(h *Hop, msg cell.RelayMsg, _ cell.Command) error {
	if err := h.ordinary(msg.Cmd); err != nil {
		return err
	}
	m, err := cell.ParseRendezvous1(msg.Data)
	if err != nil {
		return err
	}
	s := h.c.server.s
	client := s.hs.takeRend(m.Cookie)
	if client == nil {
		return fault.New(fault.Protocol, "RENDEZVOUS1: no circuit waits with this cookie")
	}
	h.c.becomes(hsRendezvous)
	// Before the answer, because the client's first cell may come as soon as it has
	// that. Cells of the service come on this goroutine, so after the answer.
	if !h.c.join(client.c) {
		return nil
	}
	s.cfg.Stats.Rendezvous.Add(1)
	return fault.Except(fault.Closed, client.Send(cell.RelayRendezvous2, 0, m.Handshake))
}

func (p *hsPoints) addRend(cookie [cell.CookieLen]byte, h *Hop) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rend[cookie] != nil {
		return false
	}
	if p.rend == nil {
		p.rend = map[[cell.CookieLen]byte]*Hop{}
	}
	p.rend[cookie] = h
	return true
}

func (p *hsPoints) dropRend(cookie [cell.CookieLen]byte, h *Hop) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rend[cookie] == h { // and not a later one
		delete(p.rend, cookie)
	}
}

// takeRend returns the client's end that waits with a cookie, and forgets the cookie.
func (p *hsPoints) takeRend(cookie [cell.CookieLen]byte) *Hop {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.rend[cookie]
	delete(p.rend, cookie)
	return h
}
