package authority

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/ident"
)

const (
	// reachableFor is how long a good test counts (C tor's REACHABLE_TIMEOUT).
	reachableFor = 45 * time.Minute
	// testEvery is how often a relay is tested (C tor's
	// REACHABILITY_TEST_CYCLE_PERIOD).
	testEvery = 1280 * time.Second
	// testAtOnce bounds the tests under way, testLimit the time of one.
	testAtOnce = 32
	testLimit  = 30 * time.Second
	// testPause is how often relays are looked through.
	testPause = 10 * time.Second
)

// testReachability opens channels to relays' ORPorts, new ones at once and
// all of them now and then, and notes who answers with the identities that the
// descriptor says.
func (a *Authority) testReachability(ctx context.Context) error {
	slots := make(chan struct{}, testAtOnce)
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		a.mu.Lock()
		news := a.news
		now := a.cfg.Now()
		var due []*relay
		for _, r := range a.relays {
			if !r.testing && (r.tested.IsZero() || now.Sub(r.tested) >= testEvery) {
				r.testing = true
				due = append(due, r)
			}
		}
		a.mu.Unlock()
		for _, r := range due {
			select {
			case <-ctx.Done():
				return nil
			case slots <- struct{}{}:
			}
			wg.Go(func() {
				defer func() { <-slots }()
				a.test(ctx, r)
			})
		}
		timer := time.NewTimer(testPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-news:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// test tests one relay over IPv4, and over IPv6 when this authority has it.
func (a *Authority) test(ctx context.Context, r *relay) {
	id := ident.RelayID{RSA: r.desc.RSA, Ed: r.desc.Ed}
	four := a.reach(ctx, id, netip.AddrPortFrom(r.desc.Addr, r.desc.ORPort))
	six := false
	if o, ok := orAddr6(r.desc); ok && a.cfg.Accept.IPv6 {
		six = a.reach(ctx, id, o)
	}
	if ctx.Err() != nil {
		return
	}
	now := a.cfg.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	r.testing, r.tested = false, now
	if four {
		r.reached4 = now
	}
	if six {
		r.reached6 = now
	}
	a.histories.note(id.RSA, a.runningLocked(r, now), now)
	if cur := a.relays[id.RSA]; cur != nil && cur != r && samePorts(cur.desc, r.desc) { // a new descriptor came meanwhile
		cur.reached4, cur.reached6, cur.tested = r.reached4, r.reached6, r.tested
	}
	if four {
		a.changed()
	}
}

// reach reports whether a link handshake with a relay succeeds.
func (a *Authority) reach(ctx context.Context, id ident.RelayID, addr netip.AddrPort) bool {
	ctx, cancel := context.WithTimeout(ctx, testLimit)
	defer cancel()
	raw, err := a.dialTCP(ctx, addr, testLimit)
	if err == nil {
		var l *channel.Link
		if l, err = channel.Connect(ctx, raw, id, addr, &channel.LinkConfig{Now: a.cfg.Now, Log: a.log}); err == nil {
			_ = l.Conn.NetConn().Close() // it has said what was asked
			return true
		}
	}
	a.log.Info("relay not reachable", "relay", id, "err", err)
	return false
}
