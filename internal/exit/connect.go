package exit

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/outbound"
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/race"
)

// attemptDelay is how long one address may take before the next is tried at the
// same time (RFC 8305, "connection attempt delay").
const attemptDelay = 250 * time.Millisecond

// connect opens a connection to the destination in BEGIN, with the address
// families that the client accepts, in the order that it prefers.
func (e *Exit) connect(ctx context.Context, h *circuit.Hop, c *rules, b cell.Begin, four, six bool) (net.Conn, uint32, error) {
	var answer Answer
	var ttl uint32 = toldTTL
	if addr, err := netip.ParseAddr(b.Host); err == nil {
		answer.Addrs, ttl = []netip.Addr{netaddr.Plain(addr)}, cell.TTLUnknown
	} else {
		if answer, err = e.lookup(ctx, h, families(four, six), func(ctx context.Context) (Answer, error) { return c.names.addrs(ctx, b.Host, four, six) }); err != nil {
			return nil, 0, &refusal{error: err, reason: lookupReason(err)}
		}
	}
	var addrs []netip.Addr
	for _, a := range answer.Addrs {
		if e.allowed(c, a, b.Port) {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) == 0 {
		told := slices.IndexFunc(answer.Addrs, c.tells)
		if told < 0 {
			return nil, 0, &refusal{error: errNoName, reason: cell.EndResolveFailed}
		}
		// The client learns the address, and chooses an exit that allows it.
		return nil, 0, &refusal{error: fault.New(fault.Refused, "the exit policy refuses"), reason: cell.EndExitPolicy, addr: answer.Addrs[told], ttl: ttl}
	}
	addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool { return e.inside(a, b.Port) })
	if len(addrs) == 0 {
		// The same reason as C tor's: with it the client does not try all other
		// exits.
		return nil, 0, &refusal{error: fault.New(fault.Refused, "it is a relay's or an authority's port"), reason: cell.EndConnectRefused}
	}
	addrs = interleave(addrs, b.Flags&cell.BeginIPv6Preferred != 0)
	conn, err := e.first(ctx, c.MaxConns, addrs, func(ctx context.Context, a netip.Addr) (net.Conn, error) {
		return e.dial(ctx, c, netip.AddrPortFrom(a, b.Port))
	})
	return conn, ttl, err
}

// maxTried bounds how many addresses of one name are tried.
const maxTried = 6

// interleave returns addresses of the two families alternately, the preferred
// family first.
func interleave(all []netip.Addr, prefer6 bool) []netip.Addr {
	var fam [2][]netip.Addr
	for _, a := range all {
		i := 0
		if a.Is6() != prefer6 {
			i = 1
		}
		fam[i] = append(fam[i], a)
	}
	var out []netip.Addr
	for i := 0; len(out) < len(all) && len(out) < maxTried; i++ {
		for _, f := range fam {
			if i < len(f) {
				out = append(out, f[i])
			}
		}
	}
	return out
}

// first connects to the first address that answers. The stream already counts one
// socket. If several addresses are tried at once, each further socket is counted
// too, and must not exceed most.
func (e *Exit) first(ctx context.Context, most int, addrs []netip.Addr, dial func(context.Context, netip.Addr) (net.Conn, error)) (net.Conn, error) {
	var tried atomic.Int64 // attempts in progress
	var failed atomic.Pointer[error]
	f := race.Field{Delay: attemptDelay, After: time.After, Go: e.goAttempt, Log: e.opts.Log}
	conn, err := race.First(ctx, f, len(addrs), func(ctx context.Context, i int) (net.Conn, error) {
		defer tried.Add(-1)
		if tried.Add(1) > 1 {
			defer e.conns.Add(-1)
			if e.conns.Add(1) > int64(most) {
				return nil, errNoSocket
			}
		}
		c, err := dial(ctx, addrs[i])
		if err != nil {
			failed.CompareAndSwap(nil, &err)
		}
		return c, err
	}, func(late net.Conn) { late.Close() })
	if why := failed.Load(); err == errNoSocket && why != nil {
		err = *why // of an address that was tried
	}
	return conn, err
}

var errNoSocket = fault.New(fault.Resource, "no further socket for this stream")

func (e *Exit) goAttempt(f func()) { e.wg.Go(panics.Contain(e.opts.Log, nil, f)) }

func (e *Exit) dial(ctx context.Context, c *rules, a netip.AddrPort) (net.Conn, error) {
	if dial := e.opts.Dial; dial != nil {
		return dial(ctx, "tcp", a.String())
	}
	d := net.Dialer{KeepAlive: 5 * time.Minute, LocalAddr: outbound.Local(c.Source, a.Addr()), Control: outbound.Late}
	return d.DialContext(ctx, "tcp", a.String())
}

// lookupReason says why a name could not be used.
func lookupReason(err error) cell.EndReason {
	switch {
	case errors.Is(err, errNoName):
		return cell.EndResolveFailed
	case fault.Is(err, fault.Timeout):
		return cell.EndTimeout
	case fault.Is(err, fault.Resource):
		return cell.EndMisc // see shortage
	}
	return cell.EndResolveFailed
}

// reasonOf maps the error of a connection to an END reason, as C tor does, with two
// differences. EADDRNOTAVAIL is no RESOURCELIMIT (see shortage): it means that one
// destination has all local ports, or that the machine has no address of this family. EPIPE
// is no DONE: the client must not take what was cut off for whole.
func reasonOf(err error) cell.EndReason {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return cell.EndConnectRefused
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EADDRNOTAVAIL):
		return cell.EndNoRoute
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.ENOMEM):
		return cell.EndResourceLimit
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return cell.EndConnReset
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return cell.EndTimeout
	case errors.Is(err, context.Canceled):
		return cell.EndHibernating // this exit is closing, or the circuit has closed, and no client gets the reason
	}
	return cell.EndMisc
}
