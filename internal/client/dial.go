package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/hscrypto"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
	"github.com/chivenet/chive/internal/stream"
)

// A stream takes these steps:
//
//	map the name, and ask whether it is permitted   Dial
//	choose the way: an exit, or an onion service    dialerTo
//	wait for a directory                            waitPool
//	take a circuit of the pool                      tryCircuits
//	begin the stream, and await its answer          dialExit, awaitOpen
//	believe the answer, or not                      believe.go
//	judge a failure: is another exit better?        judgeFailure
//
// tryCircuits owns the circuit's lease until the stream is open, and gives it back when it is not.
// To an onion service the steps are those of hsclient; then dialOnion begins the stream (onion.go).

// streamTries is how many circuits a stream is tried on.
const streamTries = 4

// Dial opens a stream, on another circuit if the first exit cannot serve it.
func (c *Client) Dial(ctx context.Context, req Request) (*Conn, error) {
	if err := c.used.claim(anonymous); err != nil {
		return nil, err
	}
	ctx, s := c.beginStream(ctx, &req, false)
	var conn *Conn
	err := s.attached(ctx, func(on attachment) (err error) {
		req.Host, req.Port = s.target()
		conn, err = c.dialOnce(ctx, s, req, on)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.streams.Add(1)
	c.conns.add(conn)
	if !s.opened(conn) { // a controller was told that it is closed
		return nil, errors.Join(errClosedMeanwhile, conn.Close())
	}
	c.cfg.Hooks.stream(StreamInfo{ID: s.r.ID, Circuit: conn.circ, State: Open})
	return conn, nil
}

// attached has try open the stream, on the circuit that a controller attaches it to, if one wants to: such a stream waits again
// after a failure.
func (s *streamLife) attached(ctx context.Context, try func(attachment) error) error {
	for n := 1; ; n++ {
		on, err := s.awaitAttach(ctx)
		if err == nil {
			err = try(on)
		}
		if err == nil {
			return nil
		}
		final := errors.Is(err, stream.ErrLookup) // an exit's answer: another circuit is not asked
		if on.circ == nil || final || !s.c.unattached.Load() || n == streamTries || ctx.Err() != nil {
			s.failed(err)
			return err
		}
		s.step(StreamDetach, func(r *StreamReport) { r.Err = err })
	}
}

var errClosedMeanwhile = fault.Also(fault.New(fault.Closed, "dial: a controller closed the stream"), net.ErrClosed)

// dialOnce opens a stream on the circuit that a controller has chosen, or on others.
func (c *Client) dialOnce(ctx context.Context, s *streamLife, req Request, on attachment) (*Conn, error) {
	var err error
	if req.Host, err = c.mapped(req.Host); err != nil {
		return nil, fault.New(fault.Config, "dial: %w", err)
	}
	s.to(req.Host)
	if err := req.Permit.Check(req.Host); err != nil {
		return nil, err
	}
	via, err := c.dialerTo(req, on)
	if err != nil {
		return nil, err
	}
	id := s.r.ID
	c.cfg.Hooks.stream(StreamInfo{ID: id, State: Opening})
	start := time.Now()
	conn, err := via(ctx, s)
	if err != nil {
		c.m.streamsFailed.Inc()
		err = fault.New(fault.KindOf(err), "dial: %w", err)
		c.cfg.Hooks.stream(StreamInfo{ID: id, State: Failed, Err: err})
		return nil, err
	}
	conn.life, conn.opened = s, time.Since(c.started)
	c.m.connect.Observe(time.Since(start))
	return conn, nil
}

// dialerTo returns what opens a stream to a request's destination: over an exit, or to
// an onion service. Nothing below .onion takes the first way.
func (c *Client) dialerTo(req Request, on attachment) (func(ctx context.Context, s *streamLife) (*Conn, error), error) {
	if hscrypto.IsAddress(req.Host) {
		service, err := c.onionAddress(req.Host)
		if err != nil {
			return nil, err
		}
		if on.circ != nil {
			return nil, fault.New(fault.Refused, "dial: only the client itself makes circuits to an onion service")
		}
		return func(ctx context.Context, s *streamLife) (*Conn, error) { return c.dialOnion(ctx, req, service, s) }, nil
	}
	dest, err := c.dest(req)
	if err != nil {
		return nil, err
	}
	if err := c.checkCountry(req); err != nil {
		return nil, err
	}
	return func(ctx context.Context, s *streamLife) (*Conn, error) { return c.dialExit(ctx, req, dest, s, on) }, nil
}

func (c *Client) dialExit(ctx context.Context, req Request, dest path.Dest, life *streamLife, on attachment) (*Conn, error) {
	var conn *Conn
	if isAddr(req.Host) { // the exit was chosen by the plain form
		req.Host = plainHost(req.Host)
	}
	try := func(ctx context.Context, lease *pool.Lease) error {
		circ := lease.Circuit.(*OpenCircuit)
		life.sent(circ.id)
		last := on.last(circ)
		s, err := stream.Begin(last, req.Host, req.Port, req.Family.Through(c.exitsIPv6(circ, last, req.Port)))
		if err != nil {
			return err
		}
		if err := awaitOpen(ctx, s, req.Early); err != nil {
			return c.believeEnd(err)
		}
		if err := errors.Join(c.believeAddr(s.ExitAddr()), ofFamily(s.ExitAddr(), req.Family)); err != nil {
			_ = s.CloseReason(cell.EndTorProtocol)
			return err
		}
		conn = &Conn{Stream: s, c: c, lease: lease, id: life.r.ID, circ: circ.id}
		return nil
	}
	var err error
	if on.circ != nil {
		err = c.tryOn(ctx, on.circ, req, try)
	} else {
		err = c.tryCircuits(ctx, req, dest, try)
	}
	return conn, err
}

// exitsIPv6 reports whether a hop lets streams to a port out over IPv6, as the directory says.
func (c *Client) exitsIPv6(circ *OpenCircuit, h *circuit.Hop, port uint16) bool {
	r := circ.exit().Relay
	if h != circ.Last() { // a controller chose another hop
		r = netdir.Relay{}
		if d := c.dirs.Directory(); d != nil && h.Info().Target != nil {
			r, _ = d.Lookup(h.Info().Target.RSA)
		}
	}
	return !r.IsZero() && path.Allows(r, path.Dest{Addr: netip.IPv6Unspecified(), Port: port})
}

// awaitOpen sends the first bytes, and waits until the stream is open. On an error the
// stream is closed.
func awaitOpen(ctx context.Context, s *stream.Stream, early []byte) error {
	if len(early) > 0 {
		if err := writeEarly(ctx, s, early); err != nil {
			_ = s.Close()
			return err
		}
	}
	return s.WaitOpen(ctx)
}

// writeEarly writes the first bytes, which may have to wait for the circuit or the exit.
func writeEarly(ctx context.Context, s *stream.Stream, early []byte) error {
	stop := context.AfterFunc(ctx, panics.Contain(nil, nil, func() { _ = s.Close() }))
	_, err := s.Write(early)
	if !stop() { // ctx has ended, so the stream is closed, or will be
		return fault.Ended(ctx, "open stream: %w", context.Cause(ctx))
	}
	return err
}

// tryCircuits runs try on one circuit after another, until it works, its error is
// final, or there were enough tries. On success the lease belongs to try.
func (c *Client) tryCircuits(ctx context.Context, req Request, dest path.Dest, try func(context.Context, *pool.Lease) error) error {
	c.bridge.wanted()
	p, err := c.waitPool(ctx)
	if err != nil {
		return err
	}
	var avoid []ident.RSAID
	var last error
	for n := 1; ; n++ {
		lease, err := p.Acquire(ctx, pool.Request{Key: req.Key, Private: req.Key.Stream != 0, Dest: dest, ExcludeExit: avoid})
		if err != nil && last != nil && ctx.Err() == nil {
			// An exit's reason tells more than that no other exit is left: it stays the cause.
			return fault.New(fault.KindOf(last), "%w; and there is no other circuit: %v", last, err)
		}
		if err != nil {
			return err
		}
		circ := lease.Circuit.(*OpenCircuit)
		if u := circ.path.Guard; u != nil {
			u.StreamTried()
		}
		tctx, cancel := context.WithTimeoutCause(ctx, c.streamTimeout(n), errStreamTimeout)
		err = try(tctx, lease)
		cancel()
		if err == nil {
			if u := circ.path.Guard; u != nil {
				u.StreamAnswered()
			}
			return nil
		}
		again := c.judgeFailure(lease, circ, err)
		lease.Release()
		if !again || n == streamTries || ctx.Err() != nil {
			return err
		}
		last = err
		avoid = append(avoid, circ.Exit())
	}
}

// tryOn runs try on the circuit that a controller has chosen.
func (c *Client) tryOn(ctx context.Context, on *OpenCircuit, req Request, try func(context.Context, *pool.Lease) error) error {
	p, err := c.waitPool(ctx)
	if err != nil {
		return err
	}
	lease, err := p.Take(on, req.Key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.streamTimeout(1), errStreamTimeout)
	defer cancel()
	if err = try(ctx, lease); err != nil {
		lease.Release()
	}
	return err
}

var errStreamTimeout = errors.New("the exit did not answer in time")

// judgeFailure draws conclusions from a stream that failed, and reports whether
// another exit may do better.
func (c *Client) judgeFailure(lease *pool.Lease, circ *OpenCircuit, err error) bool {
	u := circ.path.Guard
	var end *stream.EndError
	switch {
	case errors.Is(err, stream.ErrLookup):
		if u != nil {
			u.StreamAnswered()
		}
		return false
	case errors.Is(err, errFamily):
		if u != nil {
			u.StreamAnswered()
		}
		return true
	case errors.Is(err, errInternalAnswer):
		if u != nil {
			u.StreamAnswered()
		}
		return !errors.As(err, &end)
	case errors.As(err, &end):
		tellGuardOfEnd(u, end.Reason)
		if end.Reason == cell.EndTorProtocol {
			lease.Retire()
		}
		// Policies in a consensus say nothing about single addresses.
		if end.Reason == cell.EndExitPolicy && !end.Addr.IsValid() {
			lease.ExitRefused()
		}
		if pool.Leaving(end.Reason) {
			lease.Retire()
		}
		return pool.Retryable(end.Reason)
	case errors.Is(err, errStreamTimeout):
		if u != nil {
			u.StreamFailed()
		}
		lease.Retire()
		return true
	case circ.Err() != nil, fault.Is(err, fault.Closed): // it closed while the stream was opened
		return true
	}
	return false
}

// tellGuardOfEnd tells the guard what an END says about it. A cell that was tampered with on
// its way makes an exit complain of the protocol or end the circuit; an internal error may
// have any cause.
func tellGuardOfEnd(u *guard.Use, r cell.EndReason) {
	switch {
	case u == nil, r == cell.EndInternal:
	case r == cell.EndTorProtocol, r == cell.EndDestroy:
		u.StreamFailed()
	default:
		u.StreamAnswered()
	}
}

func (c *Client) streamTimeout(attempt int) time.Duration {
	set := c.live.Load().StreamTimeout
	switch {
	case set > 0:
		return set
	case attempt > 2:
		return 15 * time.Second
	}
	return 10 * time.Second
}

// waitPool waits until there is a directory to build circuits from.
func (c *Client) waitPool(ctx context.Context) (*pool.Pool, error) {
	// What is so already counts more than an expired ctx.
	select {
	case <-c.ctx.Done():
		return nil, context.Cause(c.ctx)
	default:
	}
	if p := c.pool.Load(); p != nil && ctx.Err() != nil {
		return nil, fault.Ended(ctx, "%w", context.Cause(ctx))
	}
	// Bridges are tried again themselves: see wanted.
	if d := c.dirs.Directory(); c.bridge == nil && (c.pool.Load() == nil || d != nil && !d.ReasonablyLive(time.Now())) {
		c.dirs.Retry()
	}
	select {
	case <-c.poolReady:
		return c.pool.Load(), nil
	case <-c.ctx.Done():
		return nil, context.Cause(c.ctx)
	case <-ctx.Done():
		b := c.Bootstrap()
		return nil, fault.New(fault.Directory, "there is no usable directory yet (%s): %w", b.Stage, fault.Ended(ctx, "%w", context.Cause(ctx)))
	}
}

// dest checks a request and returns the destination that the exit must allow.
func (c *Client) dest(req Request) (path.Dest, error) {
	host := strings.ToLower(strings.TrimRight(req.Host, "."))
	switch {
	case hscrypto.IsAddress(host):
		return path.Dest{}, fault.New(fault.Refused, "an onion service has no address to look up: connect to its name")
	case strings.HasSuffix(host, ".exit"):
		return path.Dest{}, fault.New(fault.Refused, "dial: names that choose an exit are not supported; use the option ExitNodes")
	}
	d := path.Dest{Port: req.Port}
	if a, ok := cell.ParseReverseName(host); ok && c.rejects(c.cfg.RejectInternal) && !netaddr.Public(a) {
		return path.Dest{}, fault.New(fault.Refused, "dial: the name is a private address's: no exit knows it")
	}
	if a, err := netip.ParseAddr(req.Host); err == nil {
		d.Addr = netaddr.Plain(a)
		if c.rejects(c.cfg.RejectInternal) && !netaddr.Public(d.Addr) {
			return path.Dest{}, fault.New(fault.Refused, "dial: the address is private: no exit can reach it")
		}
	} else if !netaddr.HostName(host) {
		return path.Dest{}, fault.New(fault.Config, "dial: the host is neither an address nor a host name")
	} else if c.rejects(c.cfg.RejectInternal) && netaddr.LocalName(host) {
		return path.Dest{}, fault.New(fault.Refused, "dial: the name is one of this machine or its network: no exit can reach it")
	}
	switch {
	case d.Addr.IsValid():
		if d.Addr.Is4() && req.Family == stream.IPv6Only || d.Addr.Is6() && req.Family == stream.IPv4Only {
			return path.Dest{}, fault.New(fault.Config, "dial: the address is not of the family that was asked for")
		}
	case req.Family == stream.IPv4Only:
		d.Addr = netip.IPv4Unspecified()
	case req.Family == stream.IPv6Only:
		d.Addr = netip.IPv6Unspecified()
	}
	return d, nil
}

// mappedTTL is how many seconds a program may keep an address of MapAddress, which may
// change with the next reload.
const mappedTTL = 60

// Resolve looks a name up at an exit; for an address it looks its names up.
func (c *Client) Resolve(ctx context.Context, req Request) ([]stream.Answer, error) {
	if err := c.used.claim(anonymous); err != nil {
		return nil, err
	}
	req.Port = 0
	ctx, s := c.beginStream(ctx, &req, true)
	var out []stream.Answer
	err := s.attached(ctx, func(on attachment) (err error) {
		req.Host, _ = s.target()
		out, err = c.resolve(ctx, s, req, on)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.stop(nil)
	s.step(StreamOpened, nil)
	s.ended(nil)
	return out, nil
}

func (c *Client) resolve(ctx context.Context, s *streamLife, req Request, on attachment) ([]stream.Answer, error) {
	if !isAddr(req.Host) { // the names of an address are not mapped
		host, err := c.mapped(req.Host)
		if err != nil {
			return nil, fault.New(fault.Config, "resolve: %w", err)
		}
		if err := req.Permit.Check(host); err != nil {
			return nil, err
		}
		if a, err := netip.ParseAddr(host); err == nil {
			return answersOf([]stream.Answer{{Addr: a, TTL: mappedTTL}}, req.Family)
		}
		req.Host = host
	}
	if _, err := c.dest(Request{Host: req.Host}); err != nil {
		return nil, err
	}
	if err := c.checkCountry(req); err != nil {
		return nil, err
	}
	var out []stream.Answer
	try := func(ctx context.Context, lease *pool.Lease) error {
		circ := lease.Circuit.(*OpenCircuit)
		s.sent(circ.id)
		var err error
		if out, err = stream.Resolve(ctx, on.last(circ), req.Host); err != nil {
			return err
		}
		if out, err = c.believeAnswers(out); err != nil {
			return err
		}
		lease.Release()
		return nil
	}
	var err error
	if on.circ != nil {
		err = c.tryOn(ctx, on.circ, req, try)
	} else {
		err = c.tryCircuits(ctx, req, path.Dest{}, try)
	}
	if err != nil || isAddr(req.Host) {
		return out, err
	}
	return answersOf(out, req.Family)
}

// NewIdentity keeps the circuits that exist from new streams (of clean ones, see pool.Pool.NewIdentity), and
// new circuits for onion services from the second hops of before, unless those are full vanguards.
func (c *Client) NewIdentity() {
	c.vanguards.NewIdentity()
	c.onion.NewIdentity()
	c.served.newIdentity()
	if p := c.pool.Load(); p != nil {
		p.NewIdentity()
	}
}

// newCircuits keeps all circuits that exist from new streams, because other relays are wanted.
func (c *Client) newCircuits() {
	c.onion.NewIdentity()
	if p := c.pool.Load(); p != nil {
		p.RetireAll()
	}
}
