package client

import (
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/stream"
)

// caches opens directory streams. While there is no consensus, they go to fallback
// directories and authorities; afterwards to the directory guards. When those lack
// documents that a start needs, they go to a fallback again. With bridges, they go
// to bridges only.
// A circuit of one hop serves several requests, but no more than caches allow.
type caches struct {
	c *Client

	mu     sync.Mutex                    // guards the fields below
	circs  map[ident.RSAID]*cacheCircuit // which new requests may use
	spent  map[*cacheCircuit]struct{}    // which had as many as they may have, until these have ended
	failed map[ident.RSAID]time.Time     // when each last failed
	closed bool
}

// cacheCircuit is a one-hop circuit to a cache.
type cacheCircuit struct {
	*circuit.Circuit
	use    *guard.Use // nil for a fallback
	used   time.Time
	served int // requests
	byUs   bool
	target linkspec.Target
	life   *circuitLife
}

const (
	// dirIdle is how long a directory circuit without streams is kept.
	dirIdle = 30 * time.Second
	// dirRetry is how long a cache that failed is passed over.
	dirRetry = 2 * time.Minute
	// dirConnect bounds the time to open a directory circuit.
	dirConnect = 10 * time.Second
	// dirRequests is how many requests a circuit serves. Caches close circuits that begin
	// more directory streams at once than DoSBeginDirBurst, which is 60 unless the
	// consensus says otherwise: a start makes more.
	dirRequests = 30
)

// perCircuit returns how many requests a circuit may serve; d may be nil.
func perCircuit(d *netdir.Directory) int {
	if d != nil {
		return int(min(dirRequests, d.Param("DoSBeginDirBurst", dirRequests, 1, math.MaxInt32)))
	}
	return dirRequests
}

// takeLocked counts a request of a circuit.
func (k *caches) takeLocked(d *cacheCircuit, now time.Time, most int) {
	d.used = now
	if d.served++; d.served >= most && k.circs[d.target.RSA] == d {
		delete(k.circs, d.target.RSA)
		k.spent[d] = struct{}{}
	}
}

func newCaches(c *Client) *caches {
	return &caches{c: c, circs: map[ident.RSAID]*cacheCircuit{}, spent: map[*cacheCircuit]struct{}{}, failed: map[ident.RSAID]time.Time{}}
}

// dirStream is a directory stream; its circuit stays open.
type dirStream struct{ *stream.Stream }

// OpenDir implements dirclient.Dialer.
func (k *caches) OpenDir(ctx context.Context, q dirclient.Query) (dirclient.Stream, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dirConnect, errBuildTimeout)
	defer cancel()
	target, use, err := k.choose(ctx, q)
	if err != nil {
		if fault.Is(err, fault.Config) { // trying again does not help
			k.c.problem(err)
		}
		return dirclient.Stream{}, err
	}
	out := dirclient.Stream{Cache: target.RelayID, Addrs: target.Addrs}
	circ, err := k.get(ctx, target, use)
	if err != nil {
		k.fail(target.RSA)
		return out, err
	}
	s, err := stream.BeginDir(circ.Last())
	if err != nil {
		return out, err
	}
	out.ReadWriteCloser = io.ReadWriteCloser(dirStream{s})
	return out, nil
}

// ReportDir implements dirclient.Dialer.
func (k *caches) ReportDir(cache ident.RelayID, _ dirclient.Purpose, err error) {
	if err == nil {
		k.mu.Lock()
		delete(k.failed, cache.RSA)
		k.mu.Unlock()
		return
	}
	k.fail(cache.RSA)
}

func (k *caches) fail(id ident.RSAID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for id, t := range k.failed {
		if now.Sub(t) > dirRetry {
			delete(k.failed, id)
		}
	}
	k.failed[id] = now
}

// choose picks a cache. use is not nil when it is a guard.
func (k *caches) choose(ctx context.Context, q dirclient.Query) (linkspec.Target, *guard.Use, error) {
	c := k.c
	if c.bridge != nil {
		return c.bridge.cache(ctx, q.Avoid)
	}
	if t, ok := k.sameAgain(q); ok {
		return t, nil, nil
	}
	if d := q.Directory; d != nil && d.Live(time.Now()) && q.Attempt < dirclient.Attempts {
		var avoid []ident.RSAID
		for _, id := range q.Avoid {
			avoid = append(avoid, id.RSA)
		}
		// When no guard will do, a fallback still may.
		if p, err := c.live.Load().Path.Choose(d, c.guards, newRand(), &path.Spec{Hops: 1, Exclude: avoid}, time.Now()); err == nil {
			return p.Hops[0].Target, p.Guard, nil
		}
	}
	return k.fallback(q.Avoid)
}

// sameAgain returns the cache that the request's first attempt should go to, if its circuit is
// still there.
func (k *caches) sameAgain(q dirclient.Query) (t linkspec.Target, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.circs[q.From.RSA]; q.Attempt == 0 && d != nil && d.Err() == nil {
		return d.target, true
	}
	return t, false
}

// fallback picks a fallback directory or an authority at random, of those that
// did not fail lately if there are any. Authorities come last: a public
// network's should not be asked by every client.
func (k *caches) fallback(avoid []ident.RelayID) (linkspec.Target, *guard.Use, error) {
	var good, bad []linkspec.Target
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	may := k.c.live.Load().Path.Reachable
	forbidden := 0
	add := func(t linkspec.Target) {
		if _, err := may.Target(t); err != nil {
			forbidden++
			return
		}
		failed, ok := k.failed[t.RSA]
		dead := ok && now.Sub(failed) < dirRetry
		for _, a := range avoid {
			dead = dead || a.RSA == t.RSA
		}
		if dead {
			bad = append(bad, t)
		} else {
			good = append(good, t)
		}
	}
	net := k.c.cfg.Network
	for _, f := range net.Fallbacks {
		add(linkspec.Target{RelayID: ident.RelayID{RSA: f.RSA, Ed: f.Ed}, Addrs: f.ORPorts})
	}
	if len(good) == 0 {
		for _, a := range net.Authorities {
			if len(a.ORPorts) > 0 {
				add(linkspec.Target{RelayID: ident.RelayID{RSA: a.RSA, Ed: a.Ed}, Addrs: a.ORPorts})
			}
		}
	}
	from := good
	if len(from) == 0 {
		from = bad
	}
	if len(from) == 0 && forbidden > 0 {
		return linkspec.Target{}, nil, fault.New(fault.Config, "no directory to ask: of %d fallback directories and authorities, %w", forbidden, path.ErrUnreachable)
	}
	if len(from) == 0 {
		return linkspec.Target{}, nil, fault.New(fault.Config, "the network names no fallback directory, and no authority with an ORPort")
	}
	return from[newRand().IntN(len(from))], nil, nil
}

// get returns an open circuit to the cache for one request, or builds one. It consumes
// use.
func (k *caches) get(ctx context.Context, t linkspec.Target, use *guard.Use) (*cacheCircuit, error) {
	now, most := time.Now(), perCircuit(k.c.dirs.Directory())
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return nil, fault.New(fault.Closed, "directory circuit: %w", errClosed)
	}
	if d := k.circs[t.RSA]; d != nil && d.Err() == nil {
		k.takeLocked(d, now, most)
		k.mu.Unlock()
		if use != nil {
			use.Cancelled(now)
		}
		return d, nil
	}
	k.mu.Unlock()

	d, err := k.build(ctx, t)
	now = time.Now()
	if err != nil {
		gaveUp := ctx.Err() != nil && context.Cause(ctx) != errBuildTimeout
		switch { // the caller's context may have ended: the proxy's state matters then, too
		case use == nil:
		case unreachable(err) && !gaveUp && !k.c.proxyFailed(k.c.ctx, err):
			use.Failed(now, guard.Unreachable)
		default:
			use.Cancelled(now)
		}
		return nil, err
	}
	d.use, d.used = use, now
	if use != nil {
		use.Succeeded(now)
	}
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		d.Close(cell.DestroyNone, errUnused)
		d.life.over(CircuitClosed, nil)
		return nil, fault.New(fault.Closed, "directory circuit: %w", errClosed)
	}
	// Of two that were built at the same moment the first is kept: it is in use.
	first := k.circs[t.RSA]
	if first == nil || first.Err() != nil {
		first = d
		k.circs[t.RSA] = d
	}
	k.takeLocked(first, now, most)
	k.mu.Unlock()
	d.OnClose(func(error) { k.gone(d) })
	if first != d {
		k.retire(d)
	}
	return first, nil
}

func (k *caches) build(ctx context.Context, t linkspec.Target) (*cacheCircuit, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	hop := path.Hop{Target: t}
	if dir := k.c.dirs.Directory(); dir != nil {
		hop.Relay, _ = dir.Lookup(t.RSA)
	}
	life := k.c.begin(k.c.ids.Add(1), &path.Path{Hops: []path.Hop{hop}}, ForDirectory, false, stop)
	d, err := k.buildOne(ctx, t)
	if err != nil {
		life.over(CircuitFailed, err)
		return nil, err
	}
	d.life = life
	life.extended(1)
	life.closes(nil, func() { k.retire(d) })
	life.built()
	return d, nil
}

func (k *caches) buildOne(ctx context.Context, t linkspec.Target) (*cacheCircuit, error) {
	ch, err := k.c.link(ctx, t)
	if err != nil {
		return nil, err
	}
	o := k.c.hopOptions()
	if t.Ntor.IsZero() {
		o.Handshake = handshake.Fast
	}
	asked := time.Now()
	circ, err := circuit.Create(ctx, k.c.env, ch, t, o)
	if err != nil {
		if errors.Is(err, errBuildTimeout) {
			k.c.firstHopSilent(ch, asked)
		}
		return nil, err
	}
	return &cacheCircuit{Circuit: circ, target: t}, nil
}

// gone notes that a circuit has closed.
func (k *caches) gone(d *cacheCircuit) {
	k.mu.Lock()
	if k.circs[d.target.RSA] == d {
		delete(k.circs, d.target.RSA)
	}
	delete(k.spent, d)
	byUs := d.byUs
	k.mu.Unlock()
	if err := d.Err(); byUs {
		d.life.over(CircuitClosed, nil)
	} else {
		d.life.over(CircuitClosed, err)
	}
	if d.use != nil {
		d.use.Closed(time.Now(), byUs)
	}
}

// retire closes a circuit that has no streams.
func (k *caches) retire(d *cacheCircuit) {
	k.mu.Lock()
	d.byUs = true
	k.mu.Unlock()
	d.Close(cell.DestroyNone, errUnused)
}

// reap closes circuits that were not used for a while.
func (k *caches) reap(now time.Time) {
	for _, d := range k.idle(now) {
		k.retire(d)
	}
}

func (k *caches) idle(now time.Time) (idle []*cacheCircuit) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, d := range k.circs {
		if now.Sub(d.used) > dirIdle && d.Last().Streams() == 0 {
			idle = append(idle, d)
		}
	}
	for d := range k.spent {
		if now.Sub(d.used) > dirIdle && d.Last().Streams() == 0 {
			idle = append(idle, d)
		}
	}
	return idle
}

func (k *caches) close() {
	for _, d := range k.end() {
		k.retire(d)
	}
}

// end has no circuit built any more, and returns those that are there.
func (k *caches) end() []*cacheCircuit {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	return slices.AppendSeq(slices.Collect(maps.Keys(k.spent)), maps.Values(k.circs))
}
