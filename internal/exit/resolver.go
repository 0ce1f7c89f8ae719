package exit

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/chivenet/chive/internal/fault"
)

// TTLs that clients are told, in seconds: two values only, so that what an exit
// has in its cache cannot be read off (tor-spec, "DNS TTLs"; C tor since
// 0.4.6: 5 and 60 minutes).
const (
	minTTL = 5 * 60
	maxTTL = 60 * 60
)

// clipTTL rounds a TTL to one of the two values.
func clipTTL(ttl uint32) uint32 {
	if ttl < minTTL {
		return minTTL
	}
	return maxTTL
}

const (
	dnsTimeout   = 5 * time.Second // of one server
	dnsAttempts  = 3
	cacheEntries = 65536
	maxAnswers   = 16
	failedTTL    = 10 * time.Second
	maxLookups   = 4096 // under way at the same time
)

// Answer is what a lookup found.
type Answer struct {
	Addrs []netip.Addr
	Name  string // of an address
	TTL   uint32 // seconds, clipped
}

// errNoName says that the name has no such record: asking again won't help.
var errNoName = fault.New(fault.Network, "the name has no address")

// query is what the cache is kept by.
type query struct {
	name string
	typ  dnsmessage.Type
}

// lookup is a cached answer, or one under way.
type lookup struct {
	done    chan struct{} // closed when the answer is there
	answer  Answer
	err     error
	expires time.Time // set before done is closed
}

// resolver asks name servers and remembers what they say.
type resolver struct {
	servers []string
	now     func() time.Time
	stats   *Stats
	next    atomic.Uint32
	slots   chan struct{}

	mu    sync.Mutex // guards what follows
	cache map[query]*lookup
}

// newResolver returns a resolver with the given servers, or the system's.
func newResolver(servers []netip.AddrPort, now func() time.Time, stats *Stats) (*resolver, error) {
	r := &resolver{now: now, stats: stats, cache: map[query]*lookup{}, slots: make(chan struct{}, maxLookups)}
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
	return r, nil
}

// addrs looks a name up. six and four say which addresses are wanted.
func (r *resolver) addrs(ctx context.Context, name string, four, six bool) (Answer, error) {
	var out Answer
	var errs [2]error
	var got [2]Answer
	var wg sync.WaitGroup
	for i, want := range [2]bool{four, six} {
		if want {
			wg.Go(func() {
				got[i], errs[i] = r.get(ctx, query{canonical(name), [2]dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA}[i]})
			})
		}
	}
	wg.Wait()
	for _, g := range got {
		if len(g.Addrs) > 0 {
			out.Addrs = append(out.Addrs, g.Addrs...)
			if out.TTL == 0 || g.TTL < out.TTL {
				out.TTL = g.TTL
			}
		}
	}
	if len(out.Addrs) > 0 {
		return out, nil
	}
	for _, err := range errs {
		if err != nil {
			return out, err
		}
	}
	return out, errNoName
}

// reverse looks an in-addr.arpa or ip6.arpa name up.
func (r *resolver) reverse(ctx context.Context, name string) (Answer, error) {
	return r.get(ctx, query{canonical(name), dnsmessage.TypePTR})
}

// canonical is lower case, with the root's dot.
func canonical(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") + "." }

func (r *resolver) get(ctx context.Context, q query) (Answer, error) {
	r.stats.Resolves.Add(1)
	now := r.now()
	r.mu.Lock()
	l := r.cache[q]
	if l != nil {
		select {
		case <-l.done:
			if !now.Before(l.expires) {
				l = nil
			}
		default:
		}
	}
	if l != nil {
		r.stats.CacheHits.Add(1)
	} else {
		select {
		case r.slots <- struct{}{}:
		default:
			r.mu.Unlock()
			return Answer{}, fault.New(fault.Resource, "too many lookups are under way")
		}
		l = &lookup{done: make(chan struct{})}
		r.evictLocked(now)
		r.cache[q] = l
		go func() { // outlives the stream that asked: others may wait for it
			r.run(q, l)
			<-r.slots
		}()
	}
	r.mu.Unlock()
	select {
	case <-l.done:
		return l.answer, l.err
	case <-ctx.Done():
		return Answer{}, fault.New(fault.Timeout, "look up a name: %w", context.Cause(ctx))
	}
}

// evictLocked makes room: expired entries first, then any that is finished.
func (r *resolver) evictLocked(now time.Time) {
	if len(r.cache) < cacheEntries {
		return
	}
	for _, all := range []bool{false, true} {
		scanned := 0
		for q, l := range r.cache {
			if scanned++; scanned > 256 && len(r.cache) < cacheEntries {
				return
			}
			select {
			case <-l.done:
				if all || !now.Before(l.expires) {
					delete(r.cache, q)
				}
			default:
			}
			if all && len(r.cache) < cacheEntries*7/8 {
				return
			}
		}
		if len(r.cache) < cacheEntries {
			return
		}
	}
}

func (r *resolver) run(q query, l *lookup) {
	ctx, cancel := context.WithTimeout(context.Background(), dnsAttempts*dnsTimeout)
	defer cancel()
	start := int(r.next.Add(1))
	for i := range max(dnsAttempts, len(r.servers)) {
		l.answer, l.err = r.ask(ctx, q, r.servers[(start+i)%len(r.servers)])
		if l.err == nil || l.err == errNoName || ctx.Err() != nil {
			break
		}
	}
	keep := failedTTL
	if l.err == nil {
		keep = time.Duration(l.answer.TTL) * time.Second
	} else {
		r.stats.DNSErrors.Add(1)
	}
	l.expires = r.now().Add(keep)
	close(l.done)
}

// ask asks one server, over UDP and, when the answer does not fit, TCP.
func (r *resolver) ask(ctx context.Context, q query, server string) (Answer, error) {
	reply, err := exchange(ctx, "udp", server, q)
	if err == nil && reply.Truncated {
		reply, err = exchange(ctx, "tcp", server, q)
	}
	if err != nil {
		return Answer{}, err
	}
	switch reply.RCode {
	case dnsmessage.RCodeSuccess:
		return read(q, reply)
	case dnsmessage.RCodeNameError:
		return Answer{}, errNoName
	}
	return Answer{}, fault.New(fault.Network, "look up a name: the name server says %v", reply.RCode)
}

// read takes the records that were asked for; those that aliases lead to
// count, in whatever order they come.
func read(q query, reply *dnsmessage.Message) (Answer, error) {
	var a Answer
	ttl := uint32(maxTTL)
	for _, rr := range reply.Answers {
		ttl = min(ttl, rr.Header.TTL)
		var ip netip.Addr
		switch v := rr.Body.(type) {
		case *dnsmessage.AResource:
			ip = netip.AddrFrom4(v.A)
		case *dnsmessage.AAAAResource:
			ip = netip.AddrFrom16(v.AAAA)
		case *dnsmessage.PTRResource:
			if q.typ == dnsmessage.TypePTR && a.Name == "" {
				a.Name = strings.TrimSuffix(v.PTR.String(), ".")
			}
			continue
		}
		if rr.Header.Type == q.typ && ip.IsValid() && len(a.Addrs) < maxAnswers && !slices.Contains(a.Addrs, ip) {
			a.Addrs = append(a.Addrs, ip)
		}
	}
	if len(a.Addrs) == 0 && a.Name == "" {
		return a, errNoName
	}
	a.TTL = clipTTL(ttl)
	return a, nil
}
