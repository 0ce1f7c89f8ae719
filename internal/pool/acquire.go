package pool

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/path"
)

// Request asks for a circuit for one stream.
type Request struct {
	Key  isolation.Key
	Dest path.Dest // port zero: a RESOLVE
	// Internal asks for a circuit that was built for onion services, which carries
	// nothing else, whatever its last relay lets out. Dest has no meaning then.
	Internal bool
	// Hops is the length of an internal circuit, zero for path.DefaultHops, and Next a
	// relay to which it will be extended.
	Hops int
	Next ident.RSAID
	// Private asks for a clean circuit that nobody else gets, now or later.
	Private bool
	Stable  bool // implied by long-lived ports
	// ExcludeExit are exits that refused this stream (see Retryable), or relays at
	// which an internal circuit must not end.
	ExcludeExit []ident.RSAID
}

func (r *Request) stable() bool { return r.Stable || !r.Internal && path.LongLived(r.Dest.Port) }

// target is what circuits are built for: exit policies are known by port and
// family of addresses only.
type target struct {
	port     uint16
	four     bool // an IPv4 address is known; neither: a host name
	six      bool
	internal bool
	hops     int // of an internal circuit
	stable   bool
	country  string // where its exit must be; empty: anywhere
}

func (r *Request) target() target {
	if r.Internal {
		return target{internal: true, hops: cmp.Or(r.Hops, path.DefaultHops), stable: r.stable()}
	}
	a := r.Dest.Addr.Unmap()
	return target{port: r.Dest.Port, four: a.Is4(), six: a.Is6(), stable: r.stable(), country: r.Key.Country}
}

// dest is an address that stands for all of its family.
func (t target) dest() path.Dest {
	d := path.Dest{Port: t.port}
	switch {
	case t.four:
		d.Addr = netip.IPv4Unspecified()
	case t.six:
		d.Addr = netip.IPv6Unspecified()
	}
	return d
}

// covers reports whether a circuit for t also fits o.
func (t target) covers(o target) bool {
	switch {
	case t.internal != o.internal || o.stable && !t.stable:
		return false
	case t.internal:
		return t.hops == o.hops
	case t.country != o.country:
		return false
	}
	return t.port == o.port && (t.four == o.four && t.six == o.six || !o.four && !o.six)
}

// Retryable reports whether a stream that ended before it was connected, for
// this reason, may do better at another exit: ask again with the exit that
// failed in Request.ExcludeExit.
func Retryable(r cell.EndReason) bool {
	switch r {
	case cell.EndMisc, cell.EndResolveFailed, cell.EndExitPolicy, cell.EndNoRoute, cell.EndHibernating, cell.EndResourceLimit,
		cell.EndDestroy:
		return true
	}
	return false
}

// Leaving reports whether an exit that gives this reason is about to end. Its
// circuit must be retired.
func Leaving(r cell.EndReason) bool { return r == cell.EndHibernating || r == cell.EndDestroy }

// Lease is the right to run one stream on a circuit.
type Lease struct {
	Circuit PooledCircuit
	p       *Pool
	e       *entry
	req     Request
	release sync.Once
}

// Release ends the lease, when the stream has ended. It may be called more
// than once.
func (l *Lease) Release() {
	l.release.Do(func() {
		l.p.mu.Lock()
		defer l.p.mu.Unlock()
		l.e.leases--
		if l.e.private && l.e.leases == 0 {
			l.e.retired = true
		}
		l.p.sweepLocked(time.Now())
		l.p.scheduleLocked()
		if l.e.retired || l.p.spent || len(l.p.waiters) > 0 {
			l.p.kick()
		}
	})
}

// Retire keeps new streams from the circuit, because this one failed on it. Open
// streams go on.
func (l *Lease) Retire() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.e.retired = true
	l.p.kick()
}

// refusal is a port that an exit refused against its own summary.
type refusal struct {
	exit ident.RSAID
	port uint16
}

// maxRefusals bounds how many refusals are remembered.
const maxRefusals = 1000

// ExitRefused reports that the exit refuses a destination that its published
// policy allows (path-spec 2.5). For an hour, this pool does not ask it for that
// port again, unless an address was asked for, or a family of addresses: others may
// be allowed.
func (l *Lease) ExitRefused() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if len(l.p.refused) < maxRefusals && !l.req.Dest.Addr.IsValid() {
		l.p.refused[refusal{l.Circuit.Exit(), l.req.Dest.Port}] = time.Now().Add(time.Hour)
	}
}

// waiter is a request that no open circuit fits.
type waiter struct {
	req     Request
	target  target
	launch  *launch // the one that it waits for; nil: none yet
	failed  int     // launches that failed for it
	lastErr error
	epoch   int
	avoid   []ident.RSAID // relays that they failed at
	got     chan answer   // receives once
}

type answer struct {
	lease *Lease
	err   error
}

func (w *waiter) deliver(l *Lease, err error) { w.got <- answer{l, err} }

// join makes a request wait for its circuit.
func (p *Pool) join(w *waiter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed
	}
	p.predictLocked(w.target, time.Now())
	w.epoch = p.epoch
	p.waiters = append(p.waiters, w)
	p.scheduleLocked()
	if p.spent || len(p.waiters) > 0 {
		p.kick()
	}
	return nil
}

// Acquire returns a lease of a circuit that fits: an open one at once, else a
// new one when it is built. The caller must Release it.
func (p *Pool) Acquire(ctx context.Context, req Request) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, p.gaveUp(ctx, nil)
	}
	w := &waiter{req: req, target: req.target(), got: make(chan answer, 1)}
	if err := p.join(w); err != nil {
		return nil, err
	}
	select {
	case a := <-w.got:
		return a.lease, a.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	p.waiters = slices.DeleteFunc(p.waiters, func(o *waiter) bool { return o == w })
	p.mu.Unlock()
	select {
	case a := <-w.got: // it came at the same moment
		if a.lease != nil {
			a.lease.Release()
		}
	default:
	}
	return nil, p.gaveUp(ctx, w)
}

// gaveUp is the error of a request whose context ended.
func (p *Pool) gaveUp(ctx context.Context, w *waiter) error {
	if w == nil {
		return fault.Ended(ctx, "circuit: %w", context.Cause(ctx))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.lastErr != nil {
		return fault.Ended(ctx, "circuit: %w after %d failed attempts, the last: %w", context.Cause(ctx), w.failed, w.lastErr)
	}
	return fault.Ended(ctx, "circuit: %w while it was being built", context.Cause(ctx))
}

// fitsLocked reports whether an open circuit fits a request.
func (p *Pool) fitsLocked(e *entry, w *waiter, now time.Time) bool {
	r := &w.req
	switch {
	case e.retired || e.private || e.steered || e.idle || e.leases >= p.cfg.MaxStreams || e.dead():
		return false
	case !e.clean() && (e.epoch != w.epoch || r.Private || !e.key.MayShare(r.Key) || now.Sub(e.dirty) >= p.cfg.MaxCircuitDirtiness):
		return false
	case r.stable() && !e.c.Stable():
		return false
	case r.Internal != e.internal:
		return false
	case r.Internal:
		return e.c.Leads(w.target.hops, r.Next) && !slices.Contains(r.ExcludeExit, e.c.Exit())
	case e.country != w.target.country: // who asks for no country must not get another's choice
		return false
	case !e.c.Allows(r.Dest):
		return false
	}
	if len(p.refused) > 0 {
		if until, ok := p.refused[refusal{e.c.Exit(), r.Dest.Port}]; ok && now.Before(until) {
			return false
		}
	}
	return !slices.Contains(r.ExcludeExit, e.c.Exit())
}

// bestLocked returns the open circuit to use for a request: a dirty one before a
// clean one, of dirty ones the youngest, and of clean ones the oldest, which
// would expire first. As C tor's, a pool that looks like it takes a conflux set before all other circuits.
func (p *Pool) bestLocked(w *waiter, now time.Time) *entry {
	var best *entry
	for _, e := range p.entries {
		if !p.fitsLocked(e, w, now) {
			continue
		}
		switch {
		case best != nil && p.cfg.Common != nil && e.set != best.set:
			if e.set {
				best = e
			}
		case best == nil, best.clean() && !e.clean(),
			!best.clean() && !e.clean() && e.dirty.After(best.dirty),
			best.clean() && e.clean() && e.built.Before(best.built):
			best = e
		}
	}
	return best
}

// leaseLocked gives a circuit to a waiter.
func (p *Pool) leaseLocked(e *entry, w *waiter, now time.Time) {
	p.total.Leased++
	if e.clean() {
		p.spent = true
		e.dirty, e.key, e.epoch = now, w.req.Key.Trim(), w.epoch
	} else {
		p.total.Reused++
		if e.key.KeepAlive {
			e.dirty = now
		}
	}
	e.private = w.req.Private
	e.leases++
	if e.internal {
		p.restUntil = now.Add(restTime)
	}
	w.deliver(&Lease{Circuit: e.c, p: p, e: e, req: w.req}, nil)
}
