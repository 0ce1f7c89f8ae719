package authority

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
)

// round is one round of voting. It is guarded by the Authority's mu.
type round struct {
	timing
	authorities int // of the network
	votes       map[ident.RSAID]*netdoc.Vote
	// The computed consensuses, the ns flavor first; empty before.
	pending []*netdoc.Consensus
	early   early // signatures that came before pending
	// The encoded forms of these, made on request; nil: not made since the last
	// change.
	texts    [2]*dirserver.Doc
	detached *dirserver.Doc
	came     chan struct{} // closed and replaced when a vote or signatures have come, or later was set
	later    bool          // of a prompt round: another authority has begun one for a later interval
}

// noteLocked wakes who waits for votes or signatures. The caller holds the Authority's mu.
func (r *round) noteLocked() {
	close(r.came)
	r.came = make(chan struct{})
}

// voted reports whether all authorities' votes have come.
func (r *round) voted() bool { return len(r.votes) == r.authorities }

// signed reports whether the signatures of all who voted have come.
func (r *round) signed() bool {
	return len(r.pending) > 0 && !slices.ContainsFunc(r.pending, func(c *netdoc.Consensus) bool { return len(c.Signatures) < len(r.votes) })
}

// microLine writes the arguments of a vote's "m" line.
func microLine(methods []string, digest [32]byte) string {
	return strings.Join(methods, ",") + " sha256=" + base64.RawStdEncoding.EncodeToString(digest[:])
}

// vote runs rounds until ctx ends. If the clock is set to a time outside a round,
// the round is given up.
func (a *Authority) vote(ctx context.Context) error {
	for ctx.Err() == nil {
		if !a.waitForRelays(ctx) {
			return nil
		}
		a.catchUp(ctx)
		t := a.startRound()
		if !a.waitUntil(ctx, t.vote) || a.cfg.Now().After(t.publish) {
			continue
		}
		a.castVote(ctx, t)
		if t.prompt { // who began earlier has sent its vote already, when this authority did not take it
			a.fetchVotes(ctx, t)
		}
		if !a.waitFor(ctx, t, t.fetch, (*round).voted) {
			continue
		}
		a.fetchVotes(ctx, t)
		if !a.waitFor(ctx, t, t.compute, (*round).voted) {
			continue
		}
		a.computeConsensus(ctx, t)
		if t.prompt { // signatures that came before the vote with their certificate were not taken
			a.fetchSignatures(ctx, t)
		}
		a.fetchDescriptors(ctx, t)
		if !a.waitFor(ctx, t, t.fetchSigs, (*round).signed) {
			continue
		}
		a.fetchSignatures(ctx, t)
		if !a.waitFor(ctx, t, t.publish, (*round).signed) {
			continue
		}
		a.publish(t)
		if t.prompt && !a.fresh() { // all begin the next one at the same time
			a.waitUntil(ctx, t.start.Add(t.interval))
		}
	}
	return nil
}

// waitFor waits until a time or, in a prompt round, until nothing is missing. It returns false as waitUntil does,
// and if this authority must begin its prompt round again.
func (a *Authority) waitFor(ctx context.Context, t timing, until time.Time, whole func(*round) bool) bool {
	if !t.prompt {
		return a.waitUntil(ctx, until)
	}
	later := false
	return a.waitUntilOr(ctx, until, func() (bool, <-chan struct{}) {
		a.mu.Lock()
		defer a.mu.Unlock()
		later = a.round.later && len(a.round.pending) == 0 // else what all have computed is nearly done
		return later || whole(a.round), a.round.came
	}) && !later
}

// waitForRelays waits until there are enough relays for a first consensus.
func (a *Authority) waitForRelays(ctx context.Context) bool {
	for {
		enough, news := a.enoughRelays()
		if enough {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-news:
		}
	}
}

// enoughRelays reports whether there are enough relays; news is closed when that
// may have changed.
func (a *Authority) enoughRelays() (enough bool, news <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.liveLocked() != nil || a.readyLocked() >= a.cfg.WaitForRelays, a.news
}

// readyLocked counts the relays for which the authority would vote Running.
func (a *Authority) readyLocked() (n int) {
	now := a.cfg.Now()
	for _, r := range a.relays.byRSA {
		if a.runningLocked(r, now) {
			n++
		}
	}
	return n
}

// liveLocked returns the intervals in the valid consensus, or nil if there is
// none.
func (a *Authority) liveLocked() *lifetime {
	now := a.cfg.Now()
	if c := a.current; c != nil && !now.Before(c.ValidAfter) && !now.After(c.ValidUntil) {
		return &lifetime{c.FreshUntil.Sub(c.ValidAfter), c.VoteDelay, c.DistDelay}
	}
	return nil
}

// startRound plans the next round, without votes at first.
func (a *Authority) startRound() timing {
	a.mu.Lock()
	defer a.mu.Unlock()
	live := a.liveLocked()
	t := a.cfg.Schedule.round(a.cfg.Now(), live)
	if a.round != nil {
		var err error
		if a.last, err = a.round.votesOf(); err != nil {
			a.log.Error("votes cannot be kept", "err", err)
		}
	}
	a.round = &round{timing: t, authorities: len(a.cfg.Network.Authorities), votes: map[ident.RSAID]*netdoc.Vote{}, came: make(chan struct{})}
	interval := a.cfg.Schedule.Interval
	if live != nil {
		interval = live.interval
	}
	err := a.sr.update(a.cfg.Rand, a.me, a.cfg.Network.V3Idents(), t.start, interval)
	if err == nil { // before the vote: the others take only the first commitment, also if this process is killed
		err = a.saveJSON(srFile, &a.sr)
	}
	if err != nil {
		a.log.Error("shared randomness", "err", err)
	}
	a.dropOldLocked(a.cfg.Now())
	a.log.Debug("next vote", "at", t.vote, "valid_after", t.start)
	return t
}

// castVote makes this authority's vote and sends it to the others.
func (a *Authority) castVote(ctx context.Context, t timing) {
	v, err := a.makeVote(t)
	if err != nil {
		a.log.Error("cannot vote", "err", err)
		return
	}
	if err := a.addVote(v, false); err != nil {
		a.log.Error("own vote", "err", err)
		return
	}
	a.log.Info("voted", "relays", v.Relays, "valid_after", t.start)
	text := v.Text
	a.toOthers(ctx, t.compute, func(ctx context.Context, p peer) {
		if err := p.post(ctx, "/tor/post/vote", text); err != nil {
			a.log.Warn("vote not taken", "authority", p.Nickname, "err", err)
		}
	})
}

// toOthers runs a function for all other authorities at the same time, within a
// time limit. It does not wait for the end; Run waits before it returns.
func (a *Authority) toOthers(ctx context.Context, until time.Time, f func(context.Context, peer)) *sync.WaitGroup {
	limit := max(until.Sub(a.cfg.Now()), 100*time.Millisecond)
	wg := new(sync.WaitGroup)
	for _, x := range a.cfg.Network.Authorities {
		if x.V3Ident == a.me || !x.DirPort.IsValid() {
			continue
		}
		wg.Add(1)
		a.out.Go(panics.Contain(a.log, nil, func() { // out last: Run then waits until a panic was logged
			defer wg.Done()
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			f(ctx, peer{a, x})
		}))
	}
	return wg
}

// known returns an error unless id is the identity of an authority.
func (a *Authority) known(id ident.RSAID) error {
	if _, ok := a.cfg.find(id); !ok {
		return errUnknownAuthority
	}
	return nil
}

// addVote keeps a vote of this round. posted says that it came in a POST. A
// posted vote is too late once authorities fetch missing votes: with it,
// authorities would use different votes.
func (a *Authority) addVote(v *netdoc.Vote, posted bool) error {
	if err := a.known(v.Source.Identity); err != nil {
		return err
	}
	now := a.cfg.Now()
	if err := v.Cert.CheckTime(now); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addCertLocked(v.Cert)
	r := a.round
	if r == nil && a.cfg.Schedule.Prompt {
		return errNoRound
	}
	if r != nil && a.cfg.Schedule.overtakes(v.ValidAfter, &r.timing, now) && len(r.pending) == 0 {
		r.later = true
		r.noteLocked()
		return errNoRound
	}
	if r == nil || !v.ValidAfter.Equal(r.start) {
		return fault.New(fault.Refused, "bad valid-after time")
	}
	id := v.Source.Identity
	old := r.votes[id]
	if old != nil && old.Digest == v.Digest { // it was fetched before the post came
		return nil
	}
	if posted && now.Truncate(time.Second).After(r.fetch) { // C tor counts whole seconds
		return fault.New(fault.Refused, "posted vote received too late, would be dangerous to count it")
	}
	if len(r.pending) > 0 {
		return fault.New(fault.Refused, "the consensus was computed already")
	}
	if old != nil && !old.Published.Before(v.Published) {
		return fault.New(fault.Refused, "already have a newer pending vote")
	}
	if v.Routers != nil { // of the vote, only the text is kept
		without := *v
		without.Routers = nil
		v = &without
	}
	r.votes[id] = v
	r.noteLocked()
	a.sr.receive(id, v.SharedRandCommits)
	return nil
}

// errNoRound reports a vote for an authority that still waits for relays, or that has begun its prompt round too early for
// this vote. It fetches the vote when its round begins, or begins again.
var errNoRound = fault.New(fault.Refused, "vote ignored: this authority will fetch it")

// fetchVotes asks the other authorities for missing votes: each at first for its own.
func (a *Authority) fetchVotes(ctx context.Context, t timing) {
	missing := a.missingVotes()
	if len(missing) == 0 {
		return
	}
	a.toOthers(ctx, t.compute, func(ctx context.Context, p peer) {
		n := max(slices.Index(missing, p.V3Ident), 0)
		for _, id := range slices.Concat(missing[n:], missing[:n]) {
			// One at a time: all together are larger than what is taken from an address that
			// proves nothing, and others may have sent some meanwhile.
			if slices.Contains(a.missingVotes(), id) {
				a.fetchVote(ctx, p, id)
			}
		}
	}).Wait()
}

// missingVotes returns the authorities whose votes have not come.
func (a *Authority) missingVotes() (missing []ident.RSAID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range a.cfg.Network.Authorities {
		if a.round.votes[x.V3Ident] == nil {
			missing = append(missing, x.V3Ident)
		}
	}
	return missing
}

func (a *Authority) fetchVote(ctx context.Context, p peer, id ident.RSAID) {
	body, err := p.get(ctx, "/tor/status-vote/next/"+id.String(), maxUpload)
	if err != nil {
		a.log.Debug("vote not fetched", "authority", p.Nickname, "err", err)
		return
	}
	netdoc.CheckVotes(body, 1, a.known, func(v *netdoc.Vote, err error) {
		if err == nil {
			err = a.addVote(v, false)
		}
		if errors.Is(err, errNoRound) {
			a.log.Debug("fetched vote not used", "from", p.Nickname, "err", err)
		} else if err != nil {
			a.log.Warn("fetched vote", "from", p.Nickname, "err", err)
		}
	})
}
