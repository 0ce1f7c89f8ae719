package flood

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"sync"
	"time"
)

// user is the repeated work of an honest client with a victim. Each method has
// a goroutine of its own and may keep connections and circuits for its next
// call. After an error it opens new ones.
type user interface {
	ping(ctx context.Context) error
	fetch(ctx context.Context, m *meter) error
	connect(ctx context.Context) error
	close()
}

// How often an honest client does each, and how long it waits.
const (
	pingEvery, pingTime       = 20 * time.Millisecond, 5 * time.Second
	fetchEvery, fetchTime     = 100 * time.Millisecond, 10 * time.Second
	connectEvery, connectTime = 500 * time.Millisecond, 10 * time.Second
)

// The honest client's addresses: they are not used by attackers, because limits
// apply to addresses. It opens new links from another address than the links
// that it keeps.
var (
	honestAddr  = netip.AddrFrom4([4]byte{127, 9, 0, 1})
	connectAddr = netip.AddrFrom4([4]byte{127, 9, 0, 2})
)

// honest is an honest client at work.
type honest struct {
	user     user
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	pings    samples
	connects samples
	fetched  meter

	mu   sync.Mutex
	errs map[string]error // guarded by mu: the newest of each kind
}

func startHonest(ctx context.Context, u user) *honest {
	ctx, cancel := context.WithCancel(ctx)
	h := &honest{user: u, cancel: cancel, errs: map[string]error{}}
	h.wg.Go(func() { h.again(ctx, "round trip", pingEvery, pingTime, &h.pings, u.ping) })
	h.wg.Go(func() { h.again(ctx, "new circuit", connectEvery, connectTime, &h.connects, u.connect) })
	h.wg.Go(func() {
		h.again(ctx, "download", fetchEvery, fetchTime, new(samples), func(ctx context.Context) error { return u.fetch(ctx, &h.fetched) })
	})
	return h
}

func (h *honest) stop() {
	h.cancel()
	h.wg.Wait()
	h.user.close()
}

// again calls do at intervals of every until ctx is done.
func (h *honest) again(ctx context.Context, what string, every, limit time.Duration, into *samples, do func(context.Context) error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		one, cancel := context.WithTimeout(ctx, limit)
		began := time.Now()
		into.begin(began)
		err := do(one)
		cancel()
		if ctx.Err() != nil {
			return
		}
		s := sample{began: began, took: time.Since(began), ok: err == nil}
		if err != nil {
			h.mu.Lock()
			h.errs[what] = err
			h.mu.Unlock()
			// An error that comes at once must not count as a quick answer.
			pause(ctx, every)
			s.took = limit
			s.began = time.Now().Add(-limit)
		}
		into.add(s)
	}
}

// failures returns the newest error of each kind since its last call.
func (h *honest) failures() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]string{}
	for k, err := range h.errs {
		out[k] = err.Error()
	}
	clear(h.errs)
	return out
}

// mark is a moment of a run.
type mark struct {
	at    time.Time
	bytes int64
}

func (h *honest) mark() mark { return mark{time.Now(), h.fetched.n.Load()} }

// phase returns the measurements between two moments.
func (h *honest) phase(from, to mark) Phase {
	s := to.at.Sub(from.at).Seconds()
	return Phase{Seconds: s, Goodput: float64(to.bytes-from.bytes) / 1e6 / s,
		Ping: timesOf(h.pings.between(from.at, to.at)), Connect: timesOf(h.connects.between(from.at, to.at))}
}

// closeOn closes c when ctx ends; the caller must call stop.
func closeOn(ctx context.Context, c io.Closer) (stop func() bool) {
	return context.AfterFunc(ctx, func() { c.Close() })
}

var errShort = errors.New("the answer is too short")
