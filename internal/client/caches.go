package client

import (
	"context"
	"errors"
	"iter"
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
	"github.com/chivenet/chive/internal/panics"
	"github.com/chivenet/chive/internal/path"
)

// caches opens directory streams. While there is no consensus, they go to fallback
// directories and authorities; afterwards to the directory guards. When those lack
// documents that a start needs, they go to a fallback again. With bridges, they go
// to bridges only.
// A circuit of one hop serves several requests, but no more than caches allow.
type caches struct {
	c      *Client
	ctx    context.Context // of all that builds circuits; ends with close
	cancel context.CancelFunc
	wg     sync.WaitGroup // counts it

	outdated outdated // has its own lock

	mu     sync.Mutex                    // guards the fields below
	circs  map[ident.RSAID]*cacheCircuit // which new requests may use
	making map[ident.RSAID]*cacheBuild   // one at a time to each cache, for all who ask it
	spent  map[*cacheCircuit]struct{}    // which had as many as they may have, until these have ended
	failed map[ident.RSAID]time.Time     // when each last failed
	closed bool
}

// cacheCircuit is a one-hop circuit to a cache.
type cacheCircuit struct {
	*circuit.Circuit
	made   time.Time // it takes requests for dirLife from then on
	served int       // requests
	byUs   bool
	target linkspec.Target
	life   *circuitLife
}

const (
	// dirLife is how long a directory circuit takes requests. It closes at the next tick
	// after that, if nothing runs on it: as C tor's clients close it, to which it is a dirty
	// circuit like any other. Caches close those that rest.
	dirLife = 10 * time.Minute
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

// cacheBuild is a circuit that is being built. Several requests may wait for it.
type cacheBuild struct {
	to   ident.RSAID
	use  *guard.Use    // of the request that began it; nil for a fallback
	left bool          // that request does not wait for it; guarded by caches.mu
	done chan struct{} // closed at the end of it, when err is there
	err  error
}

// takeLocked counts a request of a circuit.
func (k *caches) takeLocked(d *cacheCircuit, most int) {
	if d.served++; d.served >= most && k.circs[d.target.RSA] == d {
		delete(k.circs, d.target.RSA)
		k.spent[d] = struct{}{}
	}
}

func newCaches(c *Client) *caches {
	ctx, cancel := context.WithCancel(context.Background())
	return &caches{c: c, ctx: ctx, cancel: cancel, circs: map[ident.RSAID]*cacheCircuit{}, making: map[ident.RSAID]*cacheBuild{}, spent: map[*cacheCircuit]struct{}{}, failed: map[ident.RSAID]time.Time{}}
}

// OpenDir implements dirclient.Dialer.
func (k *caches) OpenDir(ctx context.Context, q dirclient.Query) (dirclient.Stream, error) {
	asked := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, dirConnect, errBuildTimeout)
	defer cancel()
	target, use, err := k.choose(ctx, q)
	if err != nil {
		if fault.Is(err, fault.Config) { // trying again does not help
			k.c.problem(err)
		}
		return dirclient.Stream{}, err
	}
	out := dirclient.Stream{Cache: target.RelayID, Addrs: k.c.reachedAt(target)}
	circ, err := k.get(ctx, target, use)
	if err != nil {
		k.fail(target.RSA)
		return out, err
	}
	out.ReadWriteCloser, err = k.begin(asked, circ, use, q.Purpose)
	if err != nil {
		return dirclient.Stream{Cache: out.Cache, Addrs: out.Addrs}, err
	}
	return out, nil
}

// ReportDir implements dirclient.Dialer.
func (k *caches) ReportDir(cache ident.RelayID, p dirclient.Purpose, err error) {
	switch {
	case err == nil:
		k.good(cache.RSA)
	case p == dirclient.Microdescriptors && errors.Is(err, dirclient.ErrLacks) && !k.c.cfg.Fast:
		k.outdated.note(cache.RSA, k.c.known(), k.c.cfg.Network, time.Now())
	default:
		k.fail(cache.RSA)
	}
}

func (k *caches) good(id ident.RSAID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.failed, id)
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
	// An old consensus, too, says where the guards are: an idle client's is old when it asks for the next, and so is
	// that of one which was not running.
	if d := q.Directory; d != nil && (!c.cfg.Fast || d.ReasonablyLive(time.Now())) && q.Attempt < dirclient.Attempts && !q.Authority {
		c.meet(d)
		var avoid []ident.RSAID
		for _, id := range q.Avoid {
			avoid = append(avoid, id.RSA)
		}
		spec := path.Spec{Hops: 1, Exclude: avoid}
		if q.Purpose == dirclient.Microdescriptors {
			spec.Outdated = k.outdated.of(c.known())
		}
		// When no guard will do, a fallback still may.
		if p, err := c.live.Load().Path.Choose(d, c.guards, newRand(), &spec, time.Now()); err == nil {
			return p.Hops[0].Target, p.Guard, nil
		}
	}
	return k.fallback(q.Avoid, q.Authority)
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
// did not fail lately if there are any. Authorities come last, unless one is asked for: a public
// network's should not be asked by every client.
func (k *caches) fallback(avoid []ident.RelayID, authority bool) (linkspec.Target, *guard.Use, error) {
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
	kinds := []func(){func() {
		for _, f := range net.Fallbacks {
			add(linkspec.Target{RelayID: ident.RelayID{RSA: f.RSA, Ed: f.Ed}, Addrs: f.ORPorts})
		}
	}, func() {
		for _, a := range net.Authorities {
			if len(a.ORPorts) > 0 {
				add(linkspec.Target{RelayID: ident.RelayID{RSA: a.RSA, Ed: a.Ed}, Addrs: a.ORPorts})
			}
		}
	}}
	if authority {
		slices.Reverse(kinds)
	}
	if kinds[0](); len(good) == 0 {
		kinds[1]()
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

// get returns an open circuit to the cache for one request, or builds one. With an error, it
// consumes use.
func (k *caches) get(ctx context.Context, t linkspec.Target, use *guard.Use) (*cacheCircuit, error) {
	most := perCircuit(k.c.dirs.Directory())
	until, ok := ctx.Deadline()
	if !ok {
		until = time.Now().Add(dirConnect)
	}
	for {
		d, b, began, err := k.takeOrMake(t, use, most, until)
		if err == nil && d == nil {
			select {
			case <-b.done:
				err = b.err
			case <-ctx.Done():
				if !began || !errors.Is(context.Cause(ctx), errBuildTimeout) {
					err = fault.Ended(ctx, "directory circuit: %w", context.Cause(ctx))
					break
				}
				<-b.done // its time is over, too: what the guard has to do with it is noted first
				err = b.err
			}
		}
		if err != nil {
			k.leave(b, use)
			return nil, err
		}
		if d != nil {
			return d, nil
		}
	}
}

// leave ends the use of a request that gets no circuit. The one of whoever had the circuit built is left to that, which
// still finds out what the guard has to do with it.
func (k *caches) leave(b *cacheBuild, use *guard.Use) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case use == nil:
	case b != nil && b.use == use && k.making[b.to] == b:
		b.left = true
	default:
		use.Cancelled(time.Now())
	}
}

// takeOrMake returns a circuit, or else one that is being built: until a time if it begins now. Its failure is then
// one of use. Who asked first may go: others may wait for it.
func (k *caches) takeOrMake(t linkspec.Target, use *guard.Use, most int, until time.Time) (d *cacheCircuit, b *cacheBuild, began bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, nil, false, fault.New(fault.Closed, "directory circuit: %w", errClosed)
	}
	if d := k.circs[t.RSA]; d != nil && d.Err() == nil && time.Since(d.made) < dirLife {
		k.takeLocked(d, most)
		return d, nil, false, nil
	}
	if b := k.making[t.RSA]; b != nil {
		return nil, b, false, nil
	}
	b = &cacheBuild{to: t.RSA, use: use, done: make(chan struct{})}
	k.making[t.RSA] = b
	k.wg.Go(panics.Contain(k.c.log, func(err error) { k.made(b, t, nil, err) }, func() { k.makeOne(b, t, use, until) }))
	return nil, b, true, nil
}

// makeOne builds a circuit for those who wait for it.
func (k *caches) makeOne(b *cacheBuild, t linkspec.Target, use *guard.Use, until time.Time) {
	ctx, cancel := context.WithDeadlineCause(k.ctx, until, errBuildTimeout)
	defer cancel()
	d, err := k.build(ctx, t)
	now := time.Now()
	how, connecting := unreachable(err)
	switch {
	case err == nil || use == nil: // the circuit says nothing yet: see guardStream
	case connecting && k.ctx.Err() == nil && !k.c.proxyFailed(k.c.ctx, err):
		use.Failed(now, how)
	default:
		use.Cancelled(now)
	}
	if !k.made(b, t, d, err) {
		d.Close(cell.DestroyNone, errUnused)
		d.life.over(CircuitClosed, nil)
	}
}

// made gives a circuit, or the reason why there is none, to those who wait for it. It returns false if it
// is too late.
func (k *caches) made(b *cacheBuild, t linkspec.Target, d *cacheCircuit, err error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.making[t.RSA] != b {
		return false // after a panic
	}
	delete(k.making, t.RSA)
	late := k.closed && d != nil
	if late {
		d, err = nil, fault.New(fault.Closed, "directory circuit: %w", errClosed)
	} else if d != nil {
		d.made = time.Now()
		if old := k.circs[t.RSA]; old != nil {
			k.spent[old] = struct{}{} // it takes no more requests, and may still have some
		}
		k.circs[t.RSA] = d
		d.OnClose(func(error) { k.gone(d) }) // it holds no lock then
	}
	if b.left && b.use != nil {
		b.use.Cancelled(time.Now())
	}
	b.err = err
	close(b.done)
	return !late
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
	life.closes(nil, d.Circuit, func() { k.retire(d) })
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
}

// retire closes a circuit that has no streams.
func (k *caches) retire(d *cacheCircuit) {
	k.mu.Lock()
	d.byUs = true
	k.mu.Unlock()
	d.Close(cell.DestroyNone, errUnused)
}

// reap closes circuits without streams that take no more requests.
func (k *caches) reap(now time.Time) {
	for _, d := range k.over(now) {
		k.retire(d)
	}
}

func (k *caches) over(now time.Time) (over []*cacheCircuit) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, all := range []iter.Seq[*cacheCircuit]{maps.Values(k.circs), maps.Keys(k.spent)} {
		for d := range all {
			if now.Sub(d.made) > dirLife && d.Last().Streams() == 0 {
				over = append(over, d)
			}
		}
	}
	return over
}

// busy reports whether a cache is being asked for something.
func (k *caches) busy() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	busy := len(k.making) > 0
	for _, all := range []iter.Seq[*cacheCircuit]{maps.Values(k.circs), maps.Keys(k.spent)} {
		for d := range all {
			busy = busy || d.Last().Streams() > 0
		}
	}
	return busy
}

func (k *caches) close() {
	k.cancel()
	for _, d := range k.end() {
		k.retire(d)
	}
	k.wg.Wait()
}

// end has no circuit built any more, and returns those that are there.
func (k *caches) end() []*cacheCircuit {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	return slices.AppendSeq(slices.Collect(maps.Keys(k.spent)), maps.Values(k.circs))
}
