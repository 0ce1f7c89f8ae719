package exit

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/stream"
)

func (e *Exit) beginDir(h *circuit.Hop, id uint16) error {
	if e.dir == nil {
		return e.refuse(h, id, cell.EndNotDirectory)
	}
	if refuse, gone := e.dir.Admit(h.Circuit()); gone {
		return nil
	} else if refuse {
		return e.refuse(h, id, cell.EndMisc)
	}
	if !e.hold(h) {
		return e.refuse(h, id, e.shortage())
	}
	serve, err := e.dir.Begin(e.ctx, h, id)
	if serve == nil {
		e.release(h)
		return err
	}
	e.wg.Go(func() {
		defer panics.Recover(e.opts.Log, nil)
		defer e.release(h)
		serve()
	})
	return nil
}

// begin checks a BEGIN as far as possible at once, and connects in a goroutine.
func (e *Exit) begin(h *circuit.Hop, id uint16, b cell.Begin) error {
	c := e.rules.Load()
	if c == nil {
		return e.refuse(h, id, cell.EndExitPolicy)
	}
	if e.opts.Judge != nil {
		if reason := e.opts.Judge(h.Circuit().Channel().Link()); reason != 0 {
			return e.refuse(h, id, reason)
		}
	}
	four, six := b.Flags&cell.BeginIPv4NotOK == 0, b.Flags&cell.BeginIPv6OK != 0 && c.IPv6
	if addr, err := netip.ParseAddr(b.Host); err == nil {
		addr = netaddr.Plain(addr)
		if addr.Is6() && !c.IPv6 || !e.allowed(c, addr, b.Port) {
			// C tor's clients think that an exit which tells no address refuses all.
			return e.refuseAddr(h, id, cell.End{Reason: cell.EndExitPolicy, Addr: addr, TTL: cell.TTLUnknown})
		}
	} else if !four && !six {
		return e.refuse(h, id, cell.EndExitPolicy)
	}
	if !e.hold(h) {
		return e.refuse(h, id, e.shortage())
	}
	s, err := stream.Accept(h, id, "exit stream")
	if err != nil {
		e.release(h)
		return err
	}
	s.SetHalfClose(b.Flags&cell.BeginHalfClose != 0)
	e.wg.Add(1)
	done := sync.OnceFunc(func() {
		e.release(h)
		e.wg.Done()
	})
	go func() {
		defer panics.Recover(e.opts.Log, func(err error) { broke(s)(err); done() })
		if !e.serve(c, s, b, four, six, done) {
			done()
		}
	}()
	return nil
}

// allowed checks an address in its plain form, and the address embedded in it,
// against the policy. It always refuses unspecified addresses and the relay
// itself.
func (e *Exit) allowed(c *rules, addr netip.Addr, port uint16) bool {
	for {
		if !c.Policy.Allows(addr, port) || !c.Private && !netaddr.Public(addr) || addr.IsUnspecified() ||
			slices.Contains(e.opts.Own, addr) && !addr.IsLoopback() {
			return false
		}
		carried, ok := netaddr.Carried(addr)
		if !ok {
			return true
		}
		addr = carried
	}
}

// inside reports whether an address, or the address embedded in it, belongs to
// the network itself.
func (e *Exit) inside(addr netip.Addr, port uint16) bool {
	if e.opts.Inside == nil {
		return false
	}
	carried, ok := netaddr.Carried(addr)
	return e.opts.Inside(netip.AddrPortFrom(addr, port)) || ok && e.opts.Inside(netip.AddrPortFrom(carried, port))
}

// serveCost is the memory of an exit stream on the account besides the stream
// itself, in bytes: a connection, and what joins the two.
const serveCost = 3 << 10

// serve connects a stream, and has bytes moved both ways; then it returns true, and done
// is called when both directions have ended.
func (e *Exit) serve(c *rules, s *stream.Stream, b cell.Begin, four, six bool, done func()) bool {
	s.Account().Reserve(connectCost)
	conn, ttl, err := e.reach(c, s, b, four, six)
	if err != nil {
		e.opts.Stats.Failed.Add(1)
		r := refusalOf(err)
		_ = s.Reject(r.reason, r.addr, r.ttl) // an error means that the circuit is gone
		return false
	}
	s.Account().Release(connectCost - serveCost)
	e.opts.Stats.Opened.Add(1)
	if err := s.Connected(netaddr.Of(conn.RemoteAddr()), ttl); err != nil {
		conn.Close()
		return false
	}
	e.opts.Stats.Streams.Add(1)
	e.join(s, conn, func() {
		e.opts.Stats.Streams.Add(-1)
		done()
	})
	return true
}

// connectCost is the same while the connection is being opened: goroutines take most of
// it.
const connectCost = 14 << 10

// reach opens the connection, unless the client ends the stream or the circuit meanwhile.
func (e *Exit) reach(c *rules, s *stream.Stream, b cell.Begin, four, six bool) (net.Conn, uint32, error) {
	limited, cancel := context.WithTimeout(e.ctx, c.ConnectTimeout)
	defer cancel()
	ctx, stop := s.Wanted(limited)
	defer stop()
	return e.connect(ctx, s.Hop(), c, b, four, six)
}

// broke returns the function that ends a stream after a panic.
func broke(s *stream.Stream) func(error) {
	return func(error) { _ = s.CloseReason(cell.EndInternal) } // an error means that the circuit is gone
}

// refusal is an error with the reason for the client.
type refusal struct {
	error
	reason cell.EndReason
	addr   netip.Addr
	ttl    uint32
}

func (r *refusal) Unwrap() error { return r.error }

func refusalOf(err error) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	return &refusal{error: err, reason: reasonOf(err)}
}
