package hsclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/hspow"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
)

const (
	// DefaultMaxEffort is the greatest effort that C tor's clients do.
	DefaultMaxEffort = hspow.MaxSuggested
	// Each introduction after which a service does not come raises the effort, as C tor
	// does: to twice as much up to doubleUntil, then by half; to firstRaise at least.
	firstRaise, doubleUntil = 8, 1000
	// With proofs of work, more introductions are worth their price: each has more effort
	// than the one before. maxBids is how many, and bidAttempts how many of them wait for
	// the service at the same time.
	maxBids, bidAttempts = 6, 4
	// toldEffort is the effort from which on the log tells users of the work at level Info:
	// it takes about a second.
	toldEffort = 100
)

// raise returns the effort of a service that suggests one, after it did not come n times.
func raise(suggested uint32, n int, most uint32) uint32 {
	effort, limit := uint64(min(suggested, most)), uint64(most)
	for ; n > 0 && effort < limit; n-- {
		if effort < doubleUntil {
			effort *= 2
		} else {
			effort += effort / 2
		}
		effort = min(max(effort, firstRaise), limit)
	}
	return uint32(effort)
}

// puzzle is the proof of work that a service asks for in one attempt to reach it; nil: it
// asks for none, or the configuration has none made.
type puzzle struct {
	blinded ident.Ed25519ID
	*netdoc.HSPoW
}

// puzzle returns a descriptor's puzzle.
func (c *Client) puzzle(desc *cached) *puzzle {
	if desc.inner.PoW == nil || c.cfg.MaxEffort == 0 {
		return nil
	}
	return &puzzle{desc.blinded, desc.inner.PoW}
}

// errUnproved says that a proof of work was not done in time.
var errUnproved = errors.New("the proof of work that it asks for is not done in time")

// proofs are the proofs of work of one attempt: one for each introduction. A proof is not
// for an introduction point: while the way to one is sought, it is made already, and if
// there is no way it serves for the next point.
type proofs struct {
	race   *race
	making <-chan proofResult
	effort uint32 // of the proof that is being made
}

// proofResult is the outcome of a proof; pow is nil if there is no effort.
type proofResult struct {
	pow *cell.PoW
	err error
}

// begin begins to make a proof, unless one is there that no introduction has used.
func (w *proofs) begin(ctx context.Context) {
	if w.making != nil {
		return
	}
	out := make(chan proofResult, 1)
	w.making = out
	effort := w.race.effort()
	w.effort = effort
	if effort == 0 {
		w.race.proved()
		out <- proofResult{}
		return
	}
	c := w.race.c
	c.wg.Go(func() {
		defer panics.Recover(c.cfg.Log, func(err error) { out <- proofResult{err: err} })
		pow, err := c.prove(ctx, w.race.history.key.key, hspow.Params{Blinded: w.race.puzzle.blinded, Seed: w.race.puzzle.Seed, Effort: effort})
		w.race.proved()
		if err != nil {
			out <- proofResult{err: err}
			return
		}
		out <- proofResult{pow: pow}
	})
}

// take waits for the proof that is being made, for one introduction.
func (w *proofs) take(ctx context.Context) (*cell.PoW, error) {
	p := <-w.making // it ends with ctx
	w.making = nil
	if p.err != nil && ctx.Err() != nil {
		return nil, fault.New(fault.Timeout, "onion service: %w (effort %d)", errUnproved, w.effort)
	}
	return p.pow, p.err
}

// prove makes a proof of work for the streams of a key, and tells the log.
func (c *Client) prove(ctx context.Context, key isolation.Key, p hspow.Params) (*cell.PoW, error) {
	level := slog.LevelDebug
	if p.Effort >= toldEffort {
		level = slog.LevelInfo
	}
	c.cfg.Log.Log(ctx, level, "solving the proof of work that an onion service asks for", "effort", p.Effort)
	began := time.Now()
	pow, err := c.workers.solve(ctx, key, p)
	took := time.Since(began).Round(time.Millisecond)
	if err != nil {
		c.cfg.Log.Debug("no proof of work", "effort", p.Effort, "took", took, "err", err)
		return pow, fault.New(fault.KindOf(err), "onion service: %w", err)
	}
	c.cfg.Log.Log(ctx, level, "the proof of work is done", "effort", p.Effort, "took", took)
	return pow, nil
}

// renew fetches a newer descriptor for later attempts, because the service came only for
// more effort than this one suggests: the streams of each isolation key would find that out
// anew. It does so no more often than services change what they suggest.
func (c *Client) renew(h *history, desc *cached) {
	if !c.mayRenew(desc) {
		return
	}
	c.wg.Go(func() {
		defer panics.Recover(c.cfg.Log, nil)
		ctx, cancel := context.WithTimeout(c.ctx, fetchTimeout)
		defer cancel()
		if _, err := c.descriptor(ctx, h, desc); err != nil {
			c.cfg.Log.Debug("no newer descriptor of an onion service", "err", err)
		}
	})
}

func (c *Client) mayRenew(desc *cached) bool {
	every := hspow.ControlEvery
	if c.cfg.Testing {
		every = hspow.ControlEveryTesting
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(desc.sought) < every {
		return false
	}
	desc.sought = time.Now()
	return true
}

// workWanted adds to the error of a service that did not come, what may be the reason:
// it serves clients first that have done more work. effort is what this client has done,
// and most the greatest effort that it does.
func workWanted(err error, work *netdoc.HSPoW, effort, most uint32) error {
	if !errors.Is(err, ErrRendezvous) || work == nil || work.Effort == 0 && effort == 0 {
		return err
	}
	why := fmt.Sprintf("this client has done effort %d", effort)
	switch {
	case most == 0:
		why = "this client does none"
	case work.Effort > most:
		why = fmt.Sprintf("this client does at most %d", most)
	}
	return fault.New(fault.KindOf(err), "%w; it asks for proof of work of effort %d, and %s", err, work.Effort, why)
}
