package dirclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/panics"
)

// C tor divides in this way, and caches see how many digests a request has (routerlist.c,
// launch_descriptor_downloads and max_dl_per_request).
const (
	maxBatch   = 500 // digests in one request
	shortBatch = 90  // and in one of public relays, whose line stays under 4096 bytes (dir-spec 5.2)
	minBatch   = 32  // fewer digests are not worth a request of their own
	minBatches = 3   // so that no cache can choose alone what a client knows

	maxParallel = 96 // requests at a time: all that a network of public size needs, as in C tor
)

// batch is a request for microdescriptors.
type batch struct {
	digests [][32]byte
	avoid   []ident.RelayID
	attempt int
}

// split sorts digests, and divides them into batches, so that even a small number is divided
// among a few requests. Each has most digests at most.
func split(digests [][32]byte, most int) []batch {
	slices.SortFunc(digests, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
	size := max(min((len(digests)+minBatches-1)/minBatches, most), minBatch)
	var out []batch
	for len(digests) > 0 {
		n := min(size, len(digests))
		out = append(out, batch{digests: digests[:n]})
		digests = digests[n:]
	}
	return out
}

func (b *batch) request() *request {
	var s strings.Builder
	s.WriteString("/tor/micro/d/")
	for i, d := range b.digests {
		if i > 0 {
			s.WriteByte('-')
		}
		s.WriteString(base64.RawStdEncoding.EncodeToString(d[:]))
	}
	s.WriteString(".z")
	return &request{path: s.String(), limit: microLimit}
}

// microAnswer is the result of one batch.
type microAnswer struct {
	batch batch
	answer
}

// publishEvery is how many microdescriptors are collected before the directory is published
// again, because each publication copies a table. Until there are enough for circuits, each answer counts, as in C tor.
const publishEvery = 1440

// updateMicrodescs fetches the microdescriptors that the newest directory lacks, with
// several requests at a time, each to another cache. It returns an error if some could
// not be fetched.
func (c *Client) updateMicrodescs(ctx context.Context) error {
	adding := c.loader.Add(c.latest)
	if s := c.cfg.Shared; s != nil {
		c.takeShared(adding)
		if adding.Missing() == 0 {
			return nil
		}
		done, err := s.Turn(ctx)
		if err != nil {
			return err
		}
		defer done()
		c.takeShared(adding)
	}
	most := maxBatch
	if c.cfg.Short {
		most = shortBatch
	}
	queue := split(c.latest.MissingMicrodescs(), most)
	answers := make(chan microAnswer, maxParallel)
	ctx, cancel := context.WithCancel(ctx)
	// Soon after a new consensus, and in a new network, the caches that the consensus
	// names may not have the microdescriptors yet. The caches that serve clients
	// without a directory have them. They are asked, too, while this client cannot
	// build circuits.
	limit := Attempts
	if !c.Ready(c.latest, c.now()) {
		limit++
	}
	running := 0
	defer func() {
		cancel()
		for ; running > 0; running-- {
			<-answers
		}
	}()
	var last error
	for fresh := publishEvery; len(queue) > 0 || running > 0; {
		for ; running < maxParallel && len(queue) > 0; running++ {
			b := queue[0]
			queue = queue[1:]
			go func() {
				defer panics.Recover(c.log, func(err error) { answers <- microAnswer{b, answer{err: err}} })
				res, cache, err := c.get(ctx, Query{Purpose: Microdescriptors, Avoid: b.avoid, Attempt: b.attempt}, b.request(), func() {}, func() {})
				answers <- microAnswer{b, answer{res, cache, err}}
			}()
		}
		a := <-answers
		running--
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		had := lacking(a.batch.digests, adding.Lacks)
		err := a.err
		if a.res != nil { // even one that was cut off: what came of it counts
			err = cmp.Or(err, c.judge(func(res *response) error { return c.takeMicrodescs(adding, res) }, a.res))
		}
		// Those of other batches do not count: a cache could send them in place of these.
		left := lacking(a.batch.digests, adding.Lacks)
		if err == nil && left > 0 {
			err = fault.New(fault.Directory, "the cache lacks %d of %d microdescriptors", left, len(a.batch.digests))
		}
		if !a.cache.RSA.IsZero() || !a.cache.Ed.IsZero() {
			var report error
			if left == had { // a cache that lacks only a few is still useful
				report = err
			}
			c.cfg.Dialer.ReportDir(a.cache, Microdescriptors, report)
		}
		if err != nil {
			last = err
			c.log.Debug("directory request failed", "for", Microdescriptors.String(), "cache", a.cache, "err", err)
			queue = again(queue, a, limit, adding.Lacks)
		}
		if fresh += had - left; fresh >= publishEvery || !c.Ready(c.latest, c.now()) || (len(queue) == 0 && running == 0) {
			fresh = 0
			c.latest = adding.Directory()
			c.offer()
		} else {
			c.progress(Progress{PhaseMicrodescs, c.latest.Len() - adding.Missing(), c.latest.Len()})
		}
	}
	if n := adding.Missing(); n > 0 {
		return fault.New(fault.Directory, "%d of %d microdescriptors could not be fetched: %w", n, c.latest.Len(), last)
	}
	return nil
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

// lacking counts the digests whose microdescriptors are missing.
func lacking(digests [][32]byte, lacks func([32]byte) bool) (n int) {
	for _, d := range digests {
		if lacks(d) {
			n++
		}
	}
	return n
}

// again puts the digests of a batch that are still missing at the end of the queue,
// for another cache, unless limit caches were asked.
func again(queue []batch, a microAnswer, limit int, lacks func([32]byte) bool) []batch {
	b := batch{avoid: append(a.batch.avoid, a.cache), attempt: a.batch.attempt + 1}
	if b.attempt == limit {
		return queue
	}
	for _, d := range a.batch.digests {
		if lacks(d) {
			b.digests = append(b.digests, d)
		}
	}
	if len(b.digests) == 0 {
		return queue
	}
	return append(queue, b)
}
