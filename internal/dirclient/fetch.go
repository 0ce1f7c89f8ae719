package dirclient

import (
	"context"
	"io"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
)

// Limits on documents, in bytes after decoding.
const (
	consensusLimit = netdoc.MaxConsensus
	certsLimit     = 1 << 20
	microLimit     = 8 << 20
)

// How long one request may take: for every fifty bytes of the answer a second more, up
// to longestRequest. So those whose link is slow get their documents, too.
const (
	consensusTimeout = 90 * time.Second
	requestTimeout   = 30 * time.Second
	longestRequest   = 10 * time.Minute
	timePerByte      = time.Second / 50
)

// commonLongest bounds a request for a consensus of a client that looks like C tor's, which has no such bound: an answer may rest for commonStall
// each time. It is enough at a thousand bytes a second.
const commonLongest = time.Hour

// allowance is the time of one request.
type allowance struct {
	io.ReadWriter
	stall     time.Duration // what each read allows from then on; 0: timePerByte counts
	end, last time.Time
	timer     *time.Timer
	read      func(n int) // is told how much was read; may be nil
}

// Read reads from the stream, and allows more time.
func (a *allowance) Read(p []byte) (int, error) {
	n, err := a.ReadWriter.Read(p)
	if a.read != nil {
		a.read(n)
	}
	if a.end = a.end.Add(time.Duration(n) * timePerByte); a.stall > 0 {
		a.end = time.Now().Add(a.stall)
	}
	if a.end.After(a.last) {
		a.end = a.last
	}
	a.timer.Reset(time.Until(a.end))
	return n, err
}

// manner is how a request is made. The functions are called meanwhile, and may be nil.
type manner struct {
	patient bool                      // the answer may rest for commonStall
	opened  func(cache ident.RelayID) // the stream is there
	begun   func()                    // the answer begins to arrive
	read    func(n int)               // so many bytes have come
}

// get makes one request over a stream of its own.
func (c *Client) get(ctx context.Context, q Query, r *request, w manner) (*response, ident.RelayID, error) {
	limit, longest, stall := requestTimeout, longestRequest, time.Duration(0)
	if q.Purpose == Consensus {
		limit = consensusTimeout
	}
	if w.patient {
		limit, stall = commonStall, commonStall
		if q.Purpose == Consensus {
			longest = commonLongest
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	now := time.Now()
	a := &allowance{read: w.read, stall: stall, end: now.Add(limit), last: now.Add(longest), timer: time.AfterFunc(limit, panics.Contain(c.log, nil, func() { cancel(context.DeadlineExceeded) }))}
	defer a.timer.Stop()
	q.Directory = c.cur.Load()
	s, err := c.cfg.Dialer.OpenDir(ctx, q)
	if err != nil {
		return nil, s.Cache, err
	}
	if w.opened != nil {
		w.opened(s.Cache)
	}
	stop := context.AfterFunc(ctx, panics.Contain(c.log, nil, func() { s.Close() }))
	a.ReadWriter = s
	own := *r // other streams may have the same request
	if len(s.Addrs) > 0 {
		own.to = s.Addrs[0]
	}
	if w.begun == nil {
		w.begun = func() {}
	}
	res, err := own.roundTrip(a, w.begun)
	if res != nil {
		res.cache = s.Cache
	}
	if !stop() && err != nil { // ctx ended and the stream was closed
		err = fault.New(fault.Timeout, "directory request for the %v: %w", q.Purpose, context.Cause(ctx))
	}
	if cerr := s.Close(); cerr != nil {
		c.log.Debug("directory stream: close", "err", cerr)
	}
	return res, s.Cache, err
}

// judge calls accept with a cache's answer. If that panics, the attempt has
// failed, and another cache is asked.
func (c *Client) judge(accept func(*response) error, res *response) (err error) {
	defer panics.Recover(c.log, func(e error) { err = e })
	return accept(res)
}

// answer is the result of one attempt at a request.
type answer struct {
	res   *response
	cache ident.RelayID
	err   error
}

// Attempts is how many caches are asked for one request before it is postponed.
// For microdescriptors without which no circuit can be built, there is one more
// attempt; its Query.Attempt is this number. A client that looks like C tor's postpones them after each: see microagain.go.
const Attempts = 3

// hedge is the time after which a second cache is asked if the first has not
// begun to answer.
const hedge = 3 * time.Second

// race sends a request to one cache, to ask.From if that is known, then to the next if that one fails or is
// slow, and so on, until accept accepts an answer. accept runs in the caller's
// goroutine. All requests have ended when race returns. A client that looks like C tor's asks one cache for a new consensus, and
// none beside a slow one.
func (c *Client) race(ctx context.Context, ask Query, r *request, accept func(*response) error) error {
	p := ask.Purpose
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan answer, Attempts)
	begun := make(chan struct{}, Attempts)
	most, patient := Attempts, c.paced() && !c.bootstrapping()
	if c.cfg.Common && p == Consensus {
		most = 1
	}
	running, started := 0, 0
	var avoid []ident.RelayID
	start := func() {
		q := ask
		q.Avoid, q.Attempt = append([]ident.RelayID(nil), avoid...), started
		running++
		started++
		go func() {
			defer panics.Recover(c.log, func(err error) { answers <- answer{err: err} })
			res, cache, err := c.get(ctx, q, r, manner{patient: patient, begun: func() { begun <- struct{}{} }})
			answers <- answer{res, cache, err}
		}()
	}
	defer func() {
		cancel()
		for ; running > 0; running-- {
			<-answers
		}
	}()
	start()
	slow := time.NewTimer(hedge)
	defer slow.Stop()
	if patient {
		slow.Stop()
	}
	for {
		select {
		case <-begun:
			slow.Stop()
		case <-slow.C:
			if started < most {
				start()
				slow.Reset(hedge)
			}
		case a := <-answers:
			running--
			if a.err == nil {
				a.err = c.judge(accept, a.res)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if !a.cache.RSA.IsZero() || !a.cache.Ed.IsZero() {
				c.cfg.Dialer.ReportDir(a.cache, p, a.err)
				avoid = append(avoid, a.cache)
			}
			if a.err == nil {
				return nil
			}
			c.log.Debug("directory request failed", "for", p.String(), "cache", a.cache, "err", a.err)
			switch {
			case started < most:
				start()
				if !patient {
					slow.Reset(hedge)
				}
			case running == 0:
				return fault.New(fault.Directory, "%v: %d caches were asked: %w", p, started, a.err)
			}
		}
	}
}

// statusError returns the error for a response without a document.
func statusError(r *response) error {
	return fault.New(fault.Directory, "the cache answered %d %.60q", r.status, r.reason)
}
