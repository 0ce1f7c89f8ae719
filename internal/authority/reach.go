package authority

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/panics"
)

const (
	// reachableFor is how long a successful test counts (C tor's
	// REACHABLE_TIMEOUT).
	reachableFor = 45 * time.Minute
	// testLimit bounds the time of one test.
	testLimit = 30 * time.Second
	// testIdle is how often the authority looks for due tests if nothing happens;
	// testPause is the least time between two looks.
	testIdle  = 10 * time.Second
	testPause = 50 * time.Millisecond
)

// family is one of the two address families that an ORPort is tested over.
type family int

const (
	ipv4 family = iota
	ipv6
	families
)

// probe has the results of the tests of one ORPort.
type probe struct {
	reached time.Time // when it answered last; zero: never
	tried   time.Time // when the last test ended; zero: none has
	failed  int       // tests that failed since it answered last
	testing bool      // a test is in progress
}

// running reports whether the port counts as reachable: it has answered lately,
// or it answered the last test. The authority may run a test late, for example
// because its machine was asleep; that is not the relay's fault.
func (p *probe) running(now time.Time) bool {
	return !p.reached.IsZero() && (now.Sub(p.reached) < reachableFor || p.failed == 0)
}

// believeLocked takes the valid consensus's word for relays that this authority, because
// it was started again, has not tested: a vote against all of them could leave the network
// without relays, and their histories would have an outage. The caller holds mu.
func (a *Authority) believeLocked() {
	if a.liveLocked() == nil {
		return
	}
	for id, r := range a.relays.byRSA {
		for f := range r.probes {
			if p := &r.probes[f]; a.listed.has(id) && p.reached.IsZero() && p.tried.IsZero() {
				p.reached = a.current.ValidAfter
			}
		}
	}
}

// portTest is one test of one ORPort.
type portTest struct {
	of    *relay
	probe *probe
	addr  netip.AddrPort
	slots *slots // where it has its slot
	// For a stranger: when its network and its source had their last turn.
	netTurn, turn uint64
}

// due returns the tests that are due; news is closed when there are other relays.
func (a *Authority) due() (tests []*portTest, news <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.dueLocked(a.cfg.Now()), a.news
}

// testReachability opens channels to relays' ORPorts: to new ones at once, and to
// all of them at intervals. It records which relays answer with the identities in
// their descriptors. Every test has its own time and result, and no test waits
// for another.
func (a *Authority) testReachability(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		tests, news := a.due()
		for _, t := range tests {
			wg.Go(func() {
				defer panics.Recover(a.log, func(err error) { a.noteTest(ctx, t, err) })
				a.noteTest(ctx, t, a.reach(ctx, t.id(), t.addr))
			})
		}
		if !pause(ctx, testIdle, news) || !pause(ctx, testPause, nil) {
			return nil
		}
	}
}

// pause waits for some time, or until news is closed; it returns false when ctx
// ends.
func pause(ctx context.Context, d time.Duration, event <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-event:
	case <-t.C:
	}
	return true
}

// id returns the identities that must answer.
func (t *portTest) id() ident.RelayID { return ident.RelayID{RSA: t.of.desc.RSA, Ed: t.of.desc.Ed} }

// noteTest records the result of a test. Calls after the first do nothing.
func (a *Authority) noteTest(ctx context.Context, t *portTest, err error) {
	id := t.id()
	if err != nil && ctx.Err() == nil {
		a.log.Log(ctx, a.grumble.level(slog.LevelInfo), "relay not reachable", "relay", id, "err", err)
	}
	now := a.cfg.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.slots == nil {
		return
	}
	t.slots.leave(t.of.network)
	t.slots = nil
	p := t.probe
	p.testing = false
	switch {
	case ctx.Err() != nil:
		return
	case err == nil:
		p.reached, p.tried, p.failed = now, now, 0
	case ours(err): // no result; the relay is tested again
		a.tests.hold = now.Add(testIdle)
	default:
		p.tried = now
		p.failed++
	}
	// A newer descriptor with the same ports has the same probes.
	if cur := a.relays.byRSA[id.RSA]; cur != nil && cur.probes == t.of.probes {
		if err == nil {
			a.pinLocked(cur.desc)
		}
		a.histories.note(id.RSA, a.runningLocked(cur, now), now)
	}
	a.noteChangeLocked()
}

// ours reports whether a test failed because this machine lacked something.
func ours(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// reach does a link handshake with a relay.
func (a *Authority) reach(ctx context.Context, id ident.RelayID, addr netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, testLimit)
	defer cancel()
	raw, err := a.dialTCP(ctx, addr, testLimit)
	if err != nil {
		return err
	}
	l, err := channel.Connect(ctx, raw, id, addr, &channel.LinkConfig{Now: a.cfg.Now, Log: a.log, Memory: a.memory})
	if err != nil {
		return err
	}
	_ = l.Conn.NetConn().Close() // the handshake was all that the test needed
	return nil
}
