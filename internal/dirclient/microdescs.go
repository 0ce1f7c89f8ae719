package dirclient

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/panics"
)

// microAnswer is the result of one batch.
type microAnswer struct {
	batch batch
	answer
}

// publishEvery is how many microdescriptors are collected before the directory is published
// again, because each publication copies a table. Until there are enough for circuits, each answer counts, as in C tor.
const publishEvery = 1440

// microFetch is the work of updateMicrodescs.
type microFetch struct {
	c       *Client
	adding  *netdir.Adding
	most    int // digests in a request
	limit   int // caches that are asked for a digest
	queue   []batch
	running int
	answers chan microAnswer
	fresh   int // added since the directory was published
	last    error
}

// updateMicrodescs fetches the microdescriptors that the newest directory lacks, with
// several requests at a time, each to another cache. It returns an error if some could
// not be fetched. No more begin once a consensus is due.
func (c *Client) updateMicrodescs(ctx context.Context, consensus *task) error {
	f := microFetch{c: c, adding: c.loader.Add(c.latest), most: maxBatch, limit: Attempts, answers: make(chan microAnswer, maxParallel), fresh: publishEvery}
	if s := c.cfg.Shared; s != nil {
		c.takeShared(f.adding)
		if f.adding.Missing() == 0 {
			return nil
		}
		done, err := s.Turn(ctx)
		if err != nil {
			return err
		}
		defer done()
		c.takeShared(f.adding)
	}
	if c.cfg.Short {
		f.most = shortBatch
	}
	// Soon after a new consensus, and in a new network, the caches that the consensus
	// names may not have the microdescriptors yet. The caches that serve clients
	// without a directory have them. They are asked, too, while this client cannot
	// build circuits, unless it is paced.
	if !c.Ready(c.latest, c.now()) {
		f.limit++
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		for ; f.running > 0; f.running-- {
			<-f.answers
		}
		c.pending = nil
	}()
	c.pending = map[[32]byte]bool{}
	f.ask(c.now())
	for len(f.queue) > 0 || f.running > 0 {
		for f.running < maxParallel && len(f.queue) > 0 {
			f.launch(ctx)
		}
		look := c.nextLook()
		select {
		case <-look.C:
			if c.paced() {
				f.publish()
			}
			if now := c.now(); c.paced() && !consensus.due(now) && c.fetchesMicrodescs(now) {
				f.ask(now)
			}
		case a := <-f.answers:
			look.Stop()
			f.running--
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			f.take(a)
		}
	}
	if n := f.adding.Missing(); n > 0 {
		return fault.New(fault.Directory, "%d of %d microdescriptors could not be fetched: %w", n, c.latest.Len(), orLater(f.last))
	}
	return nil
}

// orLater is the reason why some are missing.
func orLater(err error) error {
	if err == nil {
		return fault.New(fault.Directory, "they are asked for again later")
	}
	return err
}

// ask divides what is missing into requests. A paced client leaves out what it has asked for, or shall not ask for yet.
func (f *microFetch) ask(now time.Time) {
	missing := slices.DeleteFunc(f.c.latest.MissingMicrodescs(), func(d [32]byte) bool { return !f.adding.Lacks(d) })
	if f.c.paced() {
		missing = f.c.mayAsk(missing, now)
		for _, d := range missing {
			f.c.pending[d] = true
		}
		if f.c.pace.asked = f.c.latest.ValidAfter(); len(missing) > 0 {
			f.c.pace.tried = now
		}
	}
	f.queue = append(f.queue, split(missing, f.most)...)
}

func (f *microFetch) publish() {
	f.fresh = 0
	f.c.latest = f.adding.Directory()
	f.c.offer()
}

// launch begins the first request of the queue.
func (f *microFetch) launch(ctx context.Context) {
	b := f.queue[0]
	f.queue = f.queue[1:]
	f.running++
	patient := f.c.paced()
	go func() {
		defer panics.Recover(f.c.log, func(err error) { f.answers <- microAnswer{b, answer{err: err}} })
		res, cache, err := f.c.get(ctx, Query{Purpose: Microdescriptors, Avoid: b.avoid, Attempt: b.attempt}, b.request(), manner{patient: patient})
		f.answers <- microAnswer{b, answer{res, cache, err}}
	}()
}

// take takes the end of a request.
func (f *microFetch) take(a microAnswer) {
	c := f.c
	had := lacking(a.batch.digests, f.adding.Lacks)
	err := a.err
	if a.res != nil { // even one that was cut off: what came of it counts
		err = cmp.Or(err, c.judge(func(res *response) error { return c.takeMicrodescs(f.adding, res) }, a.res))
	}
	// Those of other batches do not count: a cache could send them in place of these.
	left := lacking(a.batch.digests, f.adding.Lacks)
	answered := a.err == nil && a.res.status != http.StatusServiceUnavailable
	if answered && left > 0 {
		lacks := fault.New(fault.Directory, "%w: %d of %d", ErrLacks, left, len(a.batch.digests))
		if err != nil {
			lacks = fault.New(fault.KindOf(err), "%w: %w", lacks, err)
		}
		err = lacks
	}
	if !a.cache.RSA.IsZero() || !a.cache.Ed.IsZero() {
		report := err
		if left < had && !c.paced() { // a cache that lacks only a few is still useful
			report = nil
		}
		c.cfg.Dialer.ReportDir(a.cache, Microdescriptors, report)
	}
	if err != nil {
		f.last = err
		c.log.Debug("directory request failed", "for", Microdescriptors.String(), "cache", a.cache, "err", err)
	}
	if f.fresh += had - left; f.fresh >= publishEvery || !c.Ready(c.latest, c.now()) || (len(f.queue) == 0 && f.running == 0) {
		f.publish()
	} else {
		c.progress(Progress{PhaseMicrodescs, c.latest.Len() - f.adding.Missing(), c.latest.Len()})
	}
	switch {
	case !c.paced() && err != nil:
		f.queue = again(f.queue, a, f.limit, f.adding.Lacks)
	case c.paced():
		now := c.now()
		for _, d := range a.batch.digests {
			delete(c.pending, d)
			if answered && f.adding.Lacks(d) {
				c.lackedBy(d, now)
			}
		}
		if left < had && !c.enough(now) {
			f.publish() // which may be enough
			f.ask(now)
		}
	}
}

// takeMicrodescs adds what an answer holds to the directory and the journal. The
// consensus names each by its digest, so no other check is needed.
func (c *Client) takeMicrodescs(adding *netdir.Adding, res *response) error {
	if res.status != http.StatusOK {
		return statusError(res)
	}
	text := make([]byte, 0, len(res.body))
	err := adding.Parse(res.body, func(one []byte) {
		text = append(text, one...)
		c.keepMicrodesc(one)
	})
	c.store.appendMicrodescs(text)
	return err
}

// takeShared takes the microdescriptors that other clients of this process have.
func (c *Client) takeShared(adding *netdir.Adding) {
	var text []byte
	n := adding.Take(func(one []byte) {
		if c.store.dir != "" {
			text = append(text, one...)
		}
		c.keepMicrodesc(one)
	})
	c.store.appendMicrodescs(text)
	if n > 0 {
		c.latest = adding.Directory()
		c.offer()
	}
}

func (c *Client) keepMicrodesc(text []byte) {
	k := c.cfg.Keeper
	if k == nil {
		return
	}
	if c.cfg.Shared == nil { // then it is part of a larger text
		text = bytes.Clone(text)
	}
	k.KeepMicrodesc(text)
}
