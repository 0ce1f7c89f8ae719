package chive

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/chivenet/chive/internal/isolation"
)

// HTTPClient returns an HTTP client whose connections are all streams of this
// client: the exit looks names up, and the HTTP client ignores the environment's
// proxies. A whole request has no time limit unless a context or the field
// Timeout sets one. Requests have Go's User-Agent unless they set another.
//
// It keeps idle connections for later requests to the same host, for 90 seconds,
// so use one HTTP client for a whole activity. Requests with different keys of
// WithIsolation share no connection, nor do those with different WithExitCountry or
// WithIPFamily, and NewIdentity closes the idle ones; redirects of requests that began before it
// share none. Its
// Transport is no *http.Transport: in a transport of your own, which knows no
// keys, set DialContext, and have one transport for each key.
func (c *Client) HTTPClient() *http.Client {
	t := &httpTransport{
		dial: c.DialContext,
		key: func(ctx context.Context) httpKey { // an http.Transport keeps hosts and ports apart
			return httpKey{c.key(ctx, "", 0), wishOf(ctx).family}
		},
	}
	c.web.add(t)
	return &http.Client{Transport: t}
}

// maxHTTPPools bounds the keys for which an HTTP client keeps idle connections, and
// maxHTTPIdle those that it keeps for one key.
const (
	maxHTTPPools = 64
	maxHTTPIdle  = 100
)

// httpTransport is a set of http.Transports, one for each isolation key. A single one would
// give a request an idle connection, and so the circuit, of a request with another key.
type httpTransport struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	key  func(context.Context) httpKey

	mu      sync.Mutex
	pools   []*httpPool // guarded by mu: the first was used least recently
	renewed uint64      // guarded by mu: how often
}

// httpKey says which requests may share a connection: more may share a circuit.
type httpKey struct {
	isolation.Key
	family IPFamily
}

// httpPool has the connections of one key.
type httpPool struct {
	key httpKey
	*http.Transport
}

// RoundTrip implements http.RoundTripper.
func (t *httpTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	at := epoch{t, t.now()}
	if r.Response != nil && r.Response.Request != nil {
		if began, ok := r.Response.Request.Context().Value(epochKey{}).(epoch); ok && began.of == t && began.number != at.number {
			// A server sends on a request that began before the new identity. Where it goes can name the old
			// identity, so that nothing may share a circuit with it.
			at, r = began, r.WithContext(WithIsolateEveryStream(r.Context()))
		}
	}
	resp, err := t.send(r)
	if err == nil && resp.Request != nil {
		resp.Request = resp.Request.WithContext(context.WithValue(resp.Request.Context(), epochKey{}, at))
	}
	return resp, err
}

// epoch says between which new identities a request of a transport began, before all redirects.
type epoch struct {
	of     *httpTransport
	number uint64
}

type epochKey struct{}

// now returns the number of new identities until now.
func (t *httpTransport) now() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.renewed
}

func (t *httpTransport) send(r *http.Request) (*http.Response, error) {
	k := t.key(r.Context())
	if k.Stream != 0 { // nothing else will have this key
		alone := t.transport()
		alone.DisableKeepAlives = true
		return alone.RoundTrip(r)
	}
	return t.pool(k).RoundTrip(r)
}

// CloseIdleConnections is what http.Client's method of this name calls.
func (t *httpTransport) CloseIdleConnections() { closeIdle(t.open()) }

// renew has later requests open new connections. Requests under way finish on theirs, which
// nothing uses afterwards.
func (t *httpTransport) renew() {
	t.mu.Lock()
	old := t.pools
	t.pools = nil
	t.renewed++
	t.mu.Unlock()
	closeIdle(old)
}

// pool returns the pool of a key. If there are too many, it forgets the one that was used
// least recently; a request that is under way there finishes.
func (t *httpTransport) pool(k httpKey) *httpPool {
	p, out := t.use(k)
	closeIdle(out)
	return p
}

func (t *httpTransport) use(k httpKey) (p *httpPool, out []*httpPool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.IndexFunc(t.pools, func(p *httpPool) bool { return p.key == k }); i >= 0 {
		p = t.pools[i]
		t.pools = slices.Delete(t.pools, i, i+1)
	} else {
		p = &httpPool{k, t.transport()}
	}
	t.pools = append(t.pools, p)
	if n := len(t.pools) - maxHTTPPools; n > 0 {
		out = slices.Clone(t.pools[:n])
		t.pools = slices.Delete(t.pools, 0, n)
	}
	return p, out
}

// transport returns a transport without connections.
func (t *httpTransport) transport() *http.Transport {
	return &http.Transport{
		Proxy:       nil, // the environment must not decide where connections go
		DialContext: t.dial, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: time.Minute, IdleConnTimeout: 90 * time.Second, MaxIdleConns: maxHTTPIdle, MaxResponseHeaderBytes: 1 << 20,
	}
}

func (t *httpTransport) open() []*httpPool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.pools)
}

func closeIdle(pools []*httpPool) {
	for _, p := range pools {
		p.CloseIdleConnections()
	}
}

// httpClients are the transports of a client's HTTP clients. A program may ask for any
// number of them and close none, so they are not kept alive here.
type httpClients struct {
	mu  sync.Mutex
	all map[weak.Pointer[httpTransport]]struct{} // guarded by mu
}

func (h *httpClients) add(t *httpTransport) {
	p := weak.Make(t)
	runtime.AddCleanup(t, h.remove, p)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[weak.Pointer[httpTransport]]struct{}{}
	}
	h.all[p] = struct{}{}
}

func (h *httpClients) remove(p weak.Pointer[httpTransport]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, p)
}

// renew renews all that are still in use.
func (h *httpClients) renew() {
	for _, t := range h.inUse() {
		t.renew()
	}
}

func (h *httpClients) inUse() (all []*httpTransport) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p := range h.all {
		if t := p.Value(); t != nil {
			all = append(all, t)
		}
	}
	return all
}
