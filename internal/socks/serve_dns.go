package socks

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/listen"
	"github.com/chivenet/chive/internal/stream"
)

// NewDNS returns a server of DNS over datagrams (ServePacket) and streams
// (Serve). It looks names up through the network for A, AAAA and PTR
// questions. The Tor protocol can carry no other questions.
func NewDNS(cfg Config) *Server {
	s := newServer("dns", cfg)
	s.handle = s.serveDNSStream
	return s
}

// ServePacket answers queries that arrive at pc, which it closes, until the
// server is closed or pc fails. It returns nil after Shutdown or Close.
func (s *Server) ServePacket(pc net.PacketConn) error {
	if !s.track(pc) {
		pc.Close()
		return nil
	}
	defer s.untrack(pc)
	s.warnExposed(pc.LocalAddr())
	var slots lookups
	buf := make([]byte, maxUDP+1)
	for {
		n, from, err := pc.ReadFrom(buf)
		if err != nil {
			if s.isClosed() || errors.Is(err, net.ErrClosed) {
				return nil
			}
			if listen.Passes(err) {
				select {
				case <-time.After(100 * time.Millisecond):
				case <-s.ctx.Done():
				}
				continue
			}
			return fault.New(fault.Local, "DNS socket: %w", err)
		}
		q, err := parseQuery(buf[:n])
		if err != nil {
			s.count.failed.Inc()
			continue // nothing to answer, and an answer could be aimed at a victim
		}
		l := slots.add(s.ctx, s.cfg.MaxConns)
		if l == nil {
			s.count.refused.Inc() // the client asks again
			s.count.evicted.Inc()
			continue
		}
		if !s.begin(func() {
			defer slots.remove(l)
			if b := s.answer(l.ctx, q, from, q.limit); b != nil {
				pc.WriteTo(b, from)
			}
		}) {
			slots.remove(l)
			return nil
		}
	}
}

// begin runs a lookup, unless the server is closing.
func (s *Server) begin(lookup func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.beginLocked(func() (left bool) { lookup(); return false })
	return true
}

// serveDNSStream answers queries with two bytes of length before each (RFC
// 1035, section 4.2.2), one after another, as long as the client asks in time. What follows a message that
// is no lookup is not read: a page in a browser can have that send an HTTP request to the port, whose first
// bytes are such a message, and whose body may have lookups of the page's choice.
func (s *Server) serveDNSStream(ctx context.Context, c *client) {
	for ctx.Err() == nil {
		c.SetDeadline(time.Now().Add(s.cfg.HandshakeTimeout))
		var size [2]byte
		if readFull(c.br, size[:]) != nil {
			return
		}
		msg := make([]byte, binary.BigEndian.Uint16(size[:]))
		if readFull(c.br, msg) != nil {
			return
		}
		q, err := parseQuery(msg)
		if err != nil {
			s.count.failed.Inc()
			return
		}
		var b []byte
		c.present(ctx, func(ctx context.Context) { b = s.answer(ctx, q, c.RemoteAddr(), 1<<16-1) })
		if b == nil {
			return
		}
		c.become(stateSilent) // until it asks again
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)); err != nil || q.strange {
			return
		}
	}
}

// answer looks up what a query asks for and packs the answer. It returns nil only
// when a name cannot be packed.
func (s *Server) answer(ctx context.Context, q query, from net.Addr, limit int) []byte {
	var answers []Answer
	if q.rcode == dnsmessage.RCodeSuccess && s.unknown(q.host) {
		q.rcode = dnsmessage.RCodeNameError
	}
	if q.rcode == dnsmessage.RCodeSuccess {
		var err error
		if answers, err = s.ask(ctx, q, from); err != nil {
			q.rcode = dnsRCode(err)
			s.tell("a DNS lookup failed", "type", q.question.Type.String(), "err", err)
		}
	} else {
		s.count.failed.Inc()
	}
	b, err := q.appendAnswer(answers, q.rcode, limit)
	if err != nil {
		b, err = q.appendAnswer(nil, dnsmessage.RCodeServerFailure, limit)
	}
	if err != nil {
		s.cfg.Log.Warn("a DNS answer could not be packed", "err", err)
		return nil
	}
	return b
}

// unknown reports whether a name is not in the DNS (RFC 7686), and has no address of a virtual
// network.
func (s *Server) unknown(host string) bool {
	m, ok := s.cfg.Dialer.(interface{ Automaps(host string) bool })
	return hscrypto.IsAddress(host) && !(ok && m.Automaps(host))
}

func (s *Server) ask(ctx context.Context, q query, from net.Addr) ([]Answer, error) {
	var client netip.Addr
	if ap, err := netip.ParseAddrPort(from.String()); err == nil {
		client = ap.Addr().Unmap()
	}
	host := q.host
	if q.addr.IsValid() {
		host = q.addr.String()
	}
	req := Request{Host: host, Key: s.key("dns", client, isolation.Auth{}), Family: stream.IPv4Only, From: stream.Origin{Protocol: "dns"}}
	if q.question.Type == dnsmessage.TypeAAAA {
		req.Family = stream.IPv6Only
	}
	began := time.Now()
	answers, err := s.resolve(ctx, q.addr.IsValid(), req)
	s.observe(began, err)
	return answers, err
}

// dnsRCode turns a failed lookup into a response code. The client hears that a
// name does not exist only if the network said that.
func dnsRCode(err error) dnsmessage.RCode {
	switch ReasonOf(err) {
	case NotFound:
		return dnsmessage.RCodeNameError
	case NotAllowed:
		return dnsmessage.RCodeRefused
	}
	return dnsmessage.RCodeServerFailure
}
