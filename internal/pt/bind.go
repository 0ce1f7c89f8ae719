package pt

import "net/netip"

// anyPort lets a transport choose its port.
var anyPort = netip.AddrPortFrom(netip.IPv4Unspecified(), 0)

// bindAddr returns where a server's transport has to listen.
func (p *Process) bindAddr(name string) netip.AddrPort {
	if a, ok := p.cfg.Server.Bind[name]; ok {
		return a
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.chosen[name]; ok {
		return a
	}
	return anyPort
}

// chose keeps the port that a server's transport chose for itself.
func (p *Process) chose(m *message) {
	s := p.cfg.Server
	if s == nil {
		return
	}
	if _, told := s.Bind[m.name]; told || p.bindAddr(m.name) == m.method.Addr {
		return
	}
	p.update(func() {
		if p.chosen == nil {
			p.chosen = map[string]netip.AddrPort{}
		}
		p.chosen[m.name] = m.method.Addr
	})
	if s.Chose != nil {
		s.Chose(m.name, m.method.Addr)
	}
}
