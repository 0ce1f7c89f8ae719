package exit

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/panics"
)

// toldTTL is what clients hear of each name, in seconds: a time that depended on the
// cache would say which names others have asked for (C tor tells the same in RESOLVED).
const toldTTL = 60

// TTLs in the cache, in seconds: two values only, and fuzzyTTL more or less, so that when an
// answer leaves the cache does not say when it came (C tor's values).
const (
	minTTL   = 5 * 60
	maxTTL   = 60 * 60
	fuzzyTTL = 4 * 60
)

// clipTTL rounds a TTL to one of the two values.
func clipTTL(ttl uint32) uint32 {
	if ttl < minTTL {
		return minTTL
	}
	return maxTTL
}

const (
	maxAnswers = 16
	failedTTL  = 10 * time.Second
	maxLookups = 4096           // questions in progress at the same time
	maxAsking  = maxLookups / 2 // streams that wait for them: each has two at most

	// cacheBytes is the estimated memory that the cache may use. The cache is on
	// no peer's account: all circuits share it, an entry outlives the circuit
	// that asked, and a peer that fills it only pushes out other names. 16 MB is
	// a small part of what a relay may hold.
	cacheBytes = 16 << 20
	entryBytes = 512 // of it, an entry without names and addresses
	addrBytes  = 24  // and an address
)

// Answer is what a lookup found.
type Answer struct {
	Addrs []netip.Addr
	Name  string // of an address
	TTL   uint32 // seconds in the cache, clipped
}

// errNoName says that the name has no such record: asking again won't help.
var errNoName = fault.New(fault.Network, "the name has no address")

// query is the key of the cache.
type query struct {
	name string
	typ  dnsmessage.Type
}

// lookup is a cached answer, or a question in progress.
type lookup struct {
	done    chan struct{} // closed when the answer is there; the next three are set before
	answer  Answer
	err     error
	expires time.Time

	cancel  context.CancelFunc
	waiters int // guarded by the resolver's mu
}

// bytes returns the estimated memory of a cache entry; an answer counts once it
// has come.
func (l *lookup) bytes(q query) int {
	n := entryBytes + len(q.name)
	if l.finished() {
		n += addrBytes*len(l.answer.Addrs) + len(l.answer.Name)
	}
	return n
}

func (l *lookup) finished() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// resolver asks name servers and caches their answers.
type resolver struct {
	servers []string
	now     func() time.Time
	dial    Dial // nil: the kernel's
	stats   *Stats
	next    atomic.Uint32
	silent  []atomic.Int64 // by server: until when it counts as silent, in Unix nanoseconds
	slots   chan struct{}
	terms   *lookupTerms

	mu    sync.Mutex // guards what follows
	cache map[query]*lookup
	bytes int // of the cache
}

// newResolver returns a resolver with the given servers, or the system's.
func newResolver(servers []netip.AddrPort, o *Options) (*resolver, error) {
	r := &resolver{now: o.Now, dial: o.Dial, stats: o.Stats, cache: map[query]*lookup{}, slots: make(chan struct{}, maxLookups), terms: new(lookupTerms)}
	for _, s := range servers {
		r.servers = append(r.servers, s.String())
	}
	if len(r.servers) == 0 {
		doc, err := os.ReadFile("/etc/resolv.conf")
		if err != nil {
			return nil, fault.New(fault.Config, "exit: no name servers are configured, and the system's are not known: %w", err)
		}
		r.servers = systemServers(string(doc))
	}
	if len(r.servers) == 0 {
		return nil, fault.New(fault.Config, "exit: no name servers")
	}
	r.silent = make([]atomic.Int64, len(r.servers))
	return r, nil
}

// reverse looks an in-addr.arpa or ip6.arpa name up.
func (r *resolver) reverse(ctx context.Context, name string) (Answer, error) {
	return r.get(ctx, query{canonical(name), dnsmessage.TypePTR})
}

// canonical is lower case, with the root's dot.
func canonical(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") + "." }

// get answers from the cache, or asks. A question continues as long as a caller
// waits for the answer. No server is asked for what is no host name: the programs behind
// it may read other bytes as something else.
func (r *resolver) get(ctx context.Context, q query) (Answer, error) {
	r.stats.Resolves.Add(1)
	if !netaddr.HostName(q.name) {
		return Answer{}, errNoName
	}
	l, err := r.join(q)
	if err != nil {
		return Answer{}, err
	}
	defer r.leave(q, l)
	select {
	case <-l.done:
		return l.answer, l.err
	case <-ctx.Done():
		return Answer{}, fault.New(fault.Timeout, "look up a name: %w", context.Cause(ctx))
	}
}

// join returns the cached answer or the question in progress, or asks a new
// question. The caller must call leave.
func (r *resolver) join(q query) (*lookup, error) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.cache[q]
	if l != nil && l.finished() && !now.Before(l.expires) {
		r.forgetLocked(q, l)
		l = nil
	}
	if l != nil {
		r.stats.CacheHits.Add(1)
	} else {
		select {
		case r.slots <- struct{}{}:
		default:
			return nil, fault.New(fault.Resource, "too many lookups are under way")
		}
		r.evictLocked(now)
		timeout, attempts := r.terms.get()
		lctx, cancel := context.WithTimeout(context.Background(), time.Duration(attempts)*timeout)
		l = &lookup{done: make(chan struct{}), cancel: cancel}
		r.cache[q] = l
		r.bytes += l.bytes(q)
		go func() {
			defer panics.Recover(nil, nil)
			defer func() { <-r.slots }()
			defer cancel()
			r.run(lctx, q, l)
		}()
	}
	l.waiters++
	return l, nil
}

// leave ends a wait. When no caller waits any longer, the question is cancelled,
// so that closed circuits leave no work behind.
func (r *resolver) leave(q query, l *lookup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.waiters--; l.waiters == 0 && !l.finished() {
		l.cancel()
		r.forgetLocked(q, l)
	}
}

// forgetLocked removes an entry from the cache, if it is still there.
func (r *resolver) forgetLocked(q query, l *lookup) {
	if r.cache[q] == l {
		delete(r.cache, q)
		r.bytes -= l.bytes(q)
	}
}

// evictLocked frees memory: it removes expired entries first, then any finished
// ones.
func (r *resolver) evictLocked(now time.Time) {
	if r.bytes < cacheBytes {
		return
	}
	for _, all := range []bool{false, true} {
		for q, l := range r.cache {
			if r.bytes < cacheBytes/8*7 {
				return
			}
			if l.finished() && (all || !now.Before(l.expires)) {
				r.forgetLocked(q, l)
			}
		}
	}
}

// errUnfinished is the answer to a lookup that a panic ended.
var errUnfinished = fault.New(fault.Local, "look up a name: internal error")

func (r *resolver) run(ctx context.Context, q query, l *lookup) {
	order := r.order()
	a, err := Answer{}, errUnfinished
	defer func() { r.finish(q, l, a, err) }()
	_, attempts := r.terms.get()
	for i := range max(attempts, len(order)) {
		server := order[i%len(order)]
		a, err = r.ask(ctx, q, r.servers[server])
		r.heard(ctx, server, err)
		if err == nil || err == errNoName || ctx.Err() != nil {
			break
		}
	}
}

// finish stores the result of a lookup and wakes its callers.
func (r *resolver) finish(q query, l *lookup, a Answer, err error) {
	keep := failedTTL
	if err == nil {
		keep = time.Duration(a.TTL)*time.Second + rand.N(2*fuzzyTTL*time.Second) - fuzzyTTL*time.Second
	} else {
		r.stats.DNSErrors.Add(1)
	}
	expires := r.now().Add(keep)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cache[q] == l {
		r.bytes += addrBytes*len(a.Addrs) + len(a.Name)
	}
	l.answer, l.err, l.expires = a, err, expires
	close(l.done)
}

// ask asks one server over UDP and, if the answer does not fit, over TCP.
func (r *resolver) ask(ctx context.Context, q query, server string) (Answer, error) {
	timeout, _ := r.terms.get()
	edns := true
	reply, err := r.exchange(ctx, timeout, "udp", server, q, edns)
	if err == nil && reply.foreign() {
		edns = false
		reply, err = r.exchange(ctx, timeout, "udp", server, q, edns)
	}
	if err == nil && reply.truncated {
		reply, err = r.exchange(ctx, timeout, "tcp", server, q, edns)
	}
	if err != nil {
		return Answer{}, err
	}
	switch reply.code {
	case dnsmessage.RCodeSuccess:
		if len(reply.addrs) == 0 && reply.name == "" {
			return Answer{}, errNoName
		}
		return Answer{Addrs: reply.addrs, Name: reply.name, TTL: clipTTL(reply.ttl)}, nil
	case dnsmessage.RCodeNameError:
		return Answer{}, errNoName
	}
	return Answer{}, fault.New(fault.Network, "look up a name: the name server says %v", reply.code)
}
