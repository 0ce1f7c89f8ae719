// Package socks is a SOCKS 4, 4a and 5 server for any dialler: the one of a
// *chive.Client, of a net.Dialer, or a function of your own.
//
// It does CONNECT, and Tor's RESOLVE if there is a Lookup. BIND and UDP are refused.
// It gives the dialler host names as programs gave them, and looks nothing up itself.
//
// User names keep connections apart, not what is sent on them: a program that keeps idle
// connections must use one only for the identity (user name and password) for which it
// opened it, and close all after a new identity. The server cannot see either.
package socks

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/socks"
)

// Limits and times of fields of a Server that are zero.
const (
	DefaultMaxConnections   = socks.DefaultMaxConns
	DefaultHandshakeTimeout = socks.DefaultHandshakeTimeout
	DefaultDialTimeout      = socks.DefaultDialTimeout
)

// Kinds of errors, as in package chive. ErrPolicy is for errors of Dial too: a program
// then hears that the destination is not allowed (code 2).
var (
	ErrConfig  error = fault.Config  // the server has no Dial
	ErrPolicy  error = fault.Refused // a rule forbids it
	ErrTimeout error = fault.Timeout // Shutdown had to cut connections
	ErrLocal   error = fault.Local   // the listener failed
)

// Server is a SOCKS server. Set its fields before the first call of a method, and do
// not change them or copy the Server later.
type Server struct {
	// Dial opens a connection for a program; it is required. network is "tcp", and
	// address a host name or an IP address with a port. ctx ends when the program has
	// gone, after DialTimeout, and with the server.
	//
	// The connection should have a method CloseWrite: without it, a program that has
	// sent everything can read no more either. What an error of Dial wraps becomes the
	// code of the reply: syscall.ECONNREFUSED, EHOSTUNREACH, time-outs,
	// *net.DNSError, ErrPolicy, and the kinds and onion errors of package chive.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Lookup returns the addresses of a host name, for Tor's command RESOLVE. Nil:
	// RESOLVE is refused.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)

	// Auth is asked about every connection. user and password are empty if the program
	// gave none; SOCKS 4 has no password. An error refuses the connection. Dial and
	// Lookup get the context that it returns, for example one of chive.WithIsolation,
	// so that users share no circuit. Nil: everything is accepted, and means nothing.
	Auth func(ctx context.Context, user, password string) (context.Context, error)

	// RefuseAddresses refuses requests that have an IP address instead of a host name:
	// a program that sends them may have asked the system's resolver first.
	RefuseAddresses bool

	Logger *slog.Logger // nil: silent. It never gets user names, passwords or destinations, unless errors of Dial have them

	MaxConnections   int           // at a time; more are closed at once
	HandshakeTimeout time.Duration // from accepting a connection to its whole request
	DialTimeout      time.Duration // from the request to Dial's answer

	once  sync.Once
	inner *socks.Server
}

// server returns the server proper.
func (s *Server) server() *socks.Server {
	s.once.Do(func() {
		s.inner = socks.NewSOCKS(socks.Config{
			Dialer: dialer{s}, Log: s.Logger, Auth: s.Auth, NoEarly: true, SafeSOCKS: s.RefuseAddresses, WarnUnsafe: s.RefuseAddresses,
			MaxConns: s.MaxConnections, HandshakeTimeout: s.HandshakeTimeout, DialTimeout: s.DialTimeout,
		})
	})
	return s.inner
}

// Serve accepts connections from l and closes it at the end. It may be called for
// several listeners at the same time. It returns nil after Shutdown or Close, and an
// error if the listener failed. Everybody who can connect to l can use the dialler:
// let it listen on loopback, or set Auth.
func (s *Server) Serve(l net.Listener) error {
	if s.Dial == nil {
		l.Close()
		return fault.New(fault.Config, "socks: the server has no Dial")
	}
	return s.server().Serve(l)
}

// Shutdown closes the listeners and waits until the programs' connections have
// ended. When ctx ends first, it closes those that are left, and returns an error.
// None of the server's goroutines is left then.
func (s *Server) Shutdown(ctx context.Context) error { return s.server().Shutdown(ctx) }

// Close closes the listeners and all connections, and waits for their goroutines.
func (s *Server) Close() error { return s.server().Close() }

// dialer makes the functions of a Server a Dialer.
type dialer struct{ s *Server }

func (d dialer) Dial(ctx context.Context, req socks.Request) (net.Conn, error) {
	return d.s.Dial(ctx, "tcp", net.JoinHostPort(req.Host, strconv.Itoa(int(req.Port))))
}

func (d dialer) Resolve(ctx context.Context, req socks.Request) ([]socks.Answer, error) {
	if d.s.Lookup == nil {
		return nil, fault.New(fault.Refused, "socks: this server looks nothing up")
	}
	addrs, err := d.s.Lookup(ctx, req.Host)
	out := make([]socks.Answer, len(addrs))
	for i, a := range addrs {
		out[i].Addr = a
	}
	return out, err
}

func (d dialer) ResolvePTR(context.Context, netip.Addr, socks.Request) ([]socks.Answer, error) {
	return nil, fault.New(fault.Refused, "socks: this server looks nothing up in reverse")
}
