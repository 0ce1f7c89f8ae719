package dirclient

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/panics"
)

// bootSchedule says when a client that looks like C tor's and has no consensus in time asks a further cache for one: at
// once, and an authority after six seconds. The pauses after that are between the beginnings of requests, however these end
// (consensus_bootstrap_dl_status and ClientBootstrapConsensus* there).
type bootSchedule struct{ any, authority attempts }

// attempts says when the next request of a kind begins.
type attempts struct {
	at    time.Time
	wait  time.Duration // the time until then when it was planned
	pause pause
}

const (
	// bootTries is how many requests there are at a time (ClientBootstrapConsensusMaxInProgressTries).
	bootTries = 3
	// bootMost is how many there are with those that are slow.
	bootMost = 3 * bootTries
	// bootAuthority is how many seconds pass before an authority is asked, and the least pause after it.
	bootAuthority = 6
)

// begin begins the schedule, if it has not begun.
func (s *bootSchedule) begin(now time.Time) {
	if s.any.at.IsZero() {
		s.authority.wait = bootAuthority * time.Second
		s.any.at, s.authority.at = now, now.Add(s.authority.wait)
	}
}

// next returns when a request begins; zero: at once.
func (s *bootSchedule) next() time.Time {
	if s.authority.at.Before(s.any.at) {
		return s.authority.at
	}
	return s.any.at
}

// due reports whether it is time, or the clock was set back.
func (a *attempts) due(now time.Time) bool {
	left := a.at.Sub(now)
	return left <= 0 || left > a.wait
}

func (a *attempts) plan(now time.Time, least int) {
	a.wait = a.pause.next(least)
	a.at = now.Add(a.wait)
}

// bootRequest is one of the requests.
type bootRequest struct {
	cache  ident.RelayID // which has the stream
	opened time.Time     // when it had one; zero: it has none yet
	begun  bool          // the answer arrives
	read   atomic.Int64  // bytes of it
}

// slow reports whether the answer takes longer than one of other clients may, though this client waits for it.
func (r *bootRequest) slow() bool {
	allowed := hedge
	if r.begun {
		allowed = min(consensusTimeout+time.Duration(r.read.Load())*timePerByte, longestRequest)
	}
	return !r.opened.IsZero() && time.Since(r.opened) >= allowed
}

// held reports whether no further request begins, in C tor because one has a stream, or there are as many as there may be. In Chive one that is slow does not
// count, unless it is a bridge's: else caches could hold up the start.
func (c *Client) held(running map[*bootRequest]bool) bool {
	counted := 0
	for r := range running {
		switch slow := r.slow() && !c.cfg.Late; {
		case slow:
		case !r.opened.IsZero():
			return true
		default:
			counted++
		}
	}
	return counted >= bootTries || len(running) >= bootMost
}

// bootEvent is what happens to a request.
type bootEvent struct {
	of     *bootRequest
	ended  bool
	begun  bool // the answer arrives; else, if it has not ended, it has a stream
	answer answer
}

// bootConsensus asks for a consensus by the schedule until accept accepts an answer, or all requests have failed: the schedule
// says when to go on. accept runs in the caller's goroutine. All requests have ended when it returns.
func (c *Client) bootConsensus(ctx context.Context, r *request, accept func(*response) error) error {
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan bootEvent, 3*bootMost) // three of each request
	running := map[*bootRequest]bool{}
	defer func() {
		cancel()
		for len(running) > 0 {
			if e := <-events; e.ended {
				delete(running, e.of)
			}
		}
	}()
	var avoid []ident.RelayID
	patient := c.paced()
	launch := func(authority bool) {
		q := Query{Purpose: Consensus, Authority: authority, Avoid: append([]ident.RelayID(nil), avoid...)}
		for r := range running {
			if r.slow() {
				q.Avoid = append(q.Avoid, r.cache)
			}
		}
		of := &bootRequest{}
		running[of] = true
		go func() {
			defer panics.Recover(c.log, func(err error) { events <- bootEvent{of: of, ended: true, answer: answer{err: err}} })
			res, cache, err := c.get(ctx, q, r, manner{
				patient: patient,
				opened:  func(cache ident.RelayID) { events <- bootEvent{of: of, answer: answer{cache: cache}} },
				begun:   func() { events <- bootEvent{of: of, begun: true} },
				read:    func(n int) { of.read.Add(int64(n)) },
			})
			events <- bootEvent{of: of, ended: true, answer: answer{res, cache, err}}
		}()
	}
	s := &c.boot
	s.begin(c.now())
	last := fault.New(fault.Directory, "%v: it is too early to ask", Consensus)
	for asked := 0; ; {
		now := c.now()
		for _, kind := range []struct {
			*attempts
			least int
		}{{&s.any, 0}, {&s.authority, bootAuthority}} {
			if kind.due(now) && !c.held(running) {
				launch(kind.attempts == &s.authority)
				kind.plan(now, kind.least)
				asked++
			}
		}
		if len(running) == 0 {
			return fault.New(fault.Directory, "%v: %d caches were asked: %w", Consensus, asked, last)
		}
		wait := time.Second // as C tor looks
		if !c.held(running) {
			wait = min(max(s.next().Sub(now), time.Millisecond), wait)
		}
		look := time.NewTimer(wait)
		select {
		case <-look.C:
		case e := <-events:
			look.Stop()
			switch {
			case e.ended:
				delete(running, e.of)
				if done, err := c.bootAnswer(ctx, e.answer, accept); done || err != nil && ctx.Err() != nil {
					return err
				} else {
					last, avoid = err, append(avoid, e.answer.cache)
				}
			case e.begun:
				e.of.begun = true
			default:
				e.of.opened, e.of.cache = time.Now(), e.answer.cache
			}
		}
	}
}

// bootAnswer takes the end of a request. done: the consensus was accepted.
func (c *Client) bootAnswer(ctx context.Context, a answer, accept func(*response) error) (done bool, err error) {
	if err = a.err; err == nil {
		err = c.judge(accept, a.res)
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if !a.cache.RSA.IsZero() || !a.cache.Ed.IsZero() {
		c.cfg.Dialer.ReportDir(a.cache, Consensus, err)
	}
	if err == nil {
		return true, nil
	}
	c.log.Debug("directory request failed", "for", Consensus.String(), "cache", a.cache, "err", err)
	return false, err
}
