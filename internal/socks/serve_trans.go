package socks

import (
	"context"
	"net"
	"net/netip"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/stream"
)

// NewTrans returns a server of a transparent port: programs that know of no proxy
// connect to other addresses, and the kernel sends their connections here (tor(1),
// TransPort). Its listeners come from [ListenTrans].
func NewTrans(cfg Config) *Server {
	s := newServer("trans", cfg)
	original := originalDst
	if cfg.TProxy {
		original = netaddrOf
	}
	s.handle = func(ctx context.Context, c *client) { s.serveTrans(ctx, c, original) }
	return s
}

// netaddrOf returns where a connection that came by TPROXY went: the kernel leaves
// the address as it was.
func netaddrOf(c net.Conn) (netip.AddrPort, error) {
	t, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, fault.New(fault.Config, "a transparent port needs TCP")
	}
	return plainPort(t.AddrPort()), nil
}

func plainPort(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(netaddr.Plain(a.Addr()), a.Port())
}

// serveTrans connects a program to where it wanted to go. It can be told of a
// failure only by a reset.
func (s *Server) serveTrans(ctx context.Context, c *client, original func(net.Conn) (netip.AddrPort, error)) {
	dst, err := original(c.Conn)
	if err == nil && s.leadsBack(c, dst) {
		err = fault.New(fault.Refused, "the connection was made to the transparent port itself")
	}
	if err != nil {
		s.count.failed.Inc()
		c.tell("a connection to the transparent port was refused", err)
		c.reset()
		return
	}
	stream, err := s.dial(ctx, c, Request{Host: dst.Addr().String(), Port: dst.Port(), Key: s.key("trans", c.addr, isolation.Auth{}), From: stream.Origin{Protocol: "trans", Addr: c.program()}})
	if err != nil {
		c.tell("a local program's connection by the transparent port failed", err)
		c.reset()
		return
	}
	join(c, stream)
}

// leadsBack reports whether a destination is the port itself. A connection that
// REDIRECT changed no longer has the address that it was made to. TPROXY changes
// nothing: then a listener at all addresses must take every connection to its own
// port number for one to itself.
func (s *Server) leadsBack(c *client, dst netip.AddrPort) bool {
	here, err := netaddrOf(c.Conn)
	if err != nil || dst.Port() == 0 {
		return true
	}
	if !s.cfg.TProxy {
		return dst == here
	}
	at, ok := c.at.(*net.TCPAddr)
	return !ok || at.AddrPort().Port() == dst.Port() && (at.IP.IsUnspecified() || plainPort(at.AddrPort()).Addr() == dst.Addr())
}

// reset closes the program's connection so that it sees a failure.
func (c *client) reset() {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Close()
}
