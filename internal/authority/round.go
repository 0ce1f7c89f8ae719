package authority

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdoc"
)

// round is one round of voting. It is guarded by the Authority's mu.
type round struct {
	timing
	votes map[ident.RSAID]*netdoc.Vote
	// The consensuses that were computed, the ns one first; empty before.
	pending []*netdoc.Consensus
	queued  []*netdoc.DetachedSignatures // that came before the consensuses were computed
}

// maxQueued bounds signatures that come early.
const maxQueued = 64

// microLine writes the arguments of a vote's "m" line.
func microLine(methods []string, digest [32]byte) string {
	return strings.Join(methods, ",") + " sha256=" + base64.RawStdEncoding.EncodeToString(digest[:])
}

// vote runs rounds until ctx ends.
func (a *Authority) vote(ctx context.Context) error {
	for ctx.Err() == nil {
		if !a.waitForRelays(ctx) {
			return nil
		}
		a.catchUp(ctx)
		t := a.startRound()
		if !a.waitUntil(ctx, t.vote) {
			return nil
		}
		a.castVote(ctx, t)
		if !a.waitUntil(ctx, t.fetch) {
			return nil
		}
		a.fetchVotes(ctx, t)
		if !a.waitUntil(ctx, t.compute) {
			return nil
		}
		a.computeConsensus(ctx, t)
		if !a.waitUntil(ctx, t.fetchSigs) {
			return nil
		}
		a.fetchSignatures(ctx, t)
		if !a.waitUntil(ctx, t.start) {
			return nil
		}
		a.publish(t)
	}
	return nil
}

// waitForRelays waits until there are as many relays as are wanted for a first
// consensus.
func (a *Authority) waitForRelays(ctx context.Context) bool {
	for {
		a.mu.Lock()
		enough := a.liveLocked() != nil || a.readyLocked() >= a.cfg.WaitForRelays
		news := a.news
		a.mu.Unlock()
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

// readyLocked counts the relays that would be voted to be running.
func (a *Authority) readyLocked() (n int) {
	now := a.cfg.Now()
	for _, r := range a.relays {
		if a.runningLocked(r, now) {
			n++
		}
	}
	return n
}

// liveLocked returns what the consensus that is valid now says about rounds,
// or nil without one.
func (a *Authority) liveLocked() *lifetime {
	now := a.cfg.Now()
	if c := a.current; c != nil && !now.Before(c.ValidAfter) && !now.After(c.ValidUntil) {
		return &lifetime{c.FreshUntil.Sub(c.ValidAfter), c.VoteDelay, c.DistDelay}
	}
	return nil
}

// startRound plans the next round and makes room for its votes.
func (a *Authority) startRound() timing {
	a.mu.Lock()
	defer a.mu.Unlock()
	live := a.liveLocked()
	t := a.cfg.Schedule.round(a.cfg.Now(), live)
	if a.round != nil {
		a.last = a.round
	}
	a.round = &round{timing: t, votes: map[ident.RSAID]*netdoc.Vote{}}
	interval := a.cfg.Schedule.Interval
	if live != nil {
		interval = live.interval
	}
	if err := a.sr.update(a.cfg.Rand, a.me, a.cfg.Network.V3Idents(), t.start, interval); err != nil {
		a.log.Error("shared randomness", "err", err)
	}
	a.dropOldLocked(a.cfg.Now())
	a.log.Debug("next vote", "at", t.vote, "valid-after", t.start)
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
	a.log.Info("voted", "relays", len(v.Routers), "valid-after", t.start)
	a.toOthers(ctx, t.compute, func(ctx context.Context, p peer) {
		if err := p.post(ctx, "/tor/post/vote", v.Text); err != nil {
			a.log.Warn("vote not taken", "authority", p.Nickname, "err", err)
		}
	})
}

// toOthers does something with all other authorities at once, for some time.
// It does not wait; Run does, before it returns.
func (a *Authority) toOthers(ctx context.Context, until time.Time, f func(context.Context, peer)) *sync.WaitGroup {
	limit := max(until.Sub(a.cfg.Now()), 100*time.Millisecond)
	wg := new(sync.WaitGroup)
	for _, x := range a.cfg.Network.Authorities {
		if x.V3Ident == a.me || !x.DirPort.IsValid() {
			continue
		}
		a.out.Add(1)
		wg.Go(func() {
			defer a.out.Done()
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			f(ctx, peer{a, x})
		})
	}
	return wg
}

// addVote keeps a vote of this round. posted says that it was sent here by
// somebody; those that come when others are asked for missing votes already
// would make authorities use different votes.
func (a *Authority) addVote(v *netdoc.Vote, posted bool) error {
	if _, known := a.cfg.find(v.Source.Identity); !known {
		return errUnknownAuthority
	}
	now := a.cfg.Now()
	if err := v.Cert.CheckTime(now); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addCertLocked(v.Cert)
	r := a.round
	if r == nil || !v.ValidAfter.Equal(r.start) {
		return fault.New(fault.Refused, "bad valid-after time")
	}
	if posted && now.Truncate(time.Second).After(r.fetch) { // whole seconds, as C tor counts
		return fault.New(fault.Refused, "posted vote received too late, would be dangerous to count it")
	}
	if len(r.pending) > 0 {
		return fault.New(fault.Refused, "the consensus was computed already")
	}
	id := v.Source.Identity
	if old := r.votes[id]; old != nil {
		if old.Digest == v.Digest {
			return nil
		}
		if !old.Published.Before(v.Published) {
			return fault.New(fault.Refused, "already have a newer pending vote")
		}
	}
	r.votes[id] = v
	if !a.cfg.NoSharedRandom {
		a.sr.receive(id, v.SharedRandCommits)
	}
	return nil
}

// fetchVotes asks the others for the votes that did not come.
func (a *Authority) fetchVotes(ctx context.Context, t timing) {
	a.mu.Lock()
	var missing []string
	for _, x := range a.cfg.Network.Authorities {
		if a.round.votes[x.V3Ident] == nil {
			missing = append(missing, x.V3Ident.String())
		}
	}
	a.mu.Unlock()
	if len(missing) == 0 {
		return
	}
	a.toOthers(ctx, t.compute, func(ctx context.Context, p peer) {
		body, err := p.get(ctx, "/tor/status-vote/next/"+strings.Join(missing, "+"), maxUpload)
		if err != nil {
			a.log.Debug("votes not fetched", "authority", p.Nickname, "err", err)
			return
		}
		netdoc.ParseVotes(body, func(v *netdoc.Vote, err error) {
			if err == nil {
				err = a.addVote(v, false)
			}
			if err != nil {
				a.log.Warn("fetched vote", "from", p.Nickname, "err", err)
			}
		})
	}).Wait()
}

// computeConsensus computes both flavors of the votes that are there, signs
// them and sends the signatures to the others.
func (a *Authority) computeConsensus(ctx context.Context, t timing) {
	a.mu.Lock()
	detached, err := a.computeLocked()
	a.mu.Unlock()
	if err != nil {
		a.log.Warn("no consensus", "err", err)
		return
	}
	a.toOthers(ctx, t.start, func(ctx context.Context, p peer) {
		if err := p.post(ctx, "/tor/post/consensus-signature", detached); err != nil {
			a.log.Warn("signatures not taken", "authority", p.Nickname, "err", err)
		}
	})
}

func (a *Authority) computeLocked() ([]byte, error) {
	r := a.round
	var votes []*netdoc.Vote
	running := false
	for _, v := range r.votes {
		votes = append(votes, v)
		running = running || slices.Contains(v.KnownFlags, "Running")
	}
	if !running {
		return nil, fault.New(fault.Directory, "nobody votes on the Running flag: a consensus would be without relays")
	}
	rules := Rules{Authorities: len(a.cfg.Network.Authorities), NoSRV: a.cfg.NoSharedRandom, FreshSRV: a.sr.Fresh}
	var pending []*netdoc.Consensus
	for _, f := range []netdoc.Flavor{netdoc.FlavorNS, netdoc.FlavorMicrodesc} {
		c, err := Compute(votes, f, rules)
		if err != nil {
			return nil, err
		}
		c.AppendUnsigned(nil) // sets the digests
		if err := c.Sign(a.cfg.Rand, a.me, a.cfg.Keys.Signing); err != nil {
			return nil, err
		}
		pending = append(pending, c)
	}
	r.pending = pending
	own := netdoc.Detach(pending[0], pending[1]).Append(nil)
	for _, d := range r.queued {
		if _, err := a.attachLocked(d); err != nil {
			a.log.Warn("early signatures", "err", err)
		}
	}
	r.queued = nil
	return own, nil
}

// addSignatures takes signatures of the round's consensuses.
func (a *Authority) addSignatures(d *netdoc.DetachedSignatures) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.round
	if r == nil {
		return 0, fault.New(fault.Refused, "no round of voting is under way")
	}
	if len(r.pending) == 0 {
		if len(r.queued) == maxQueued {
			return 0, fault.New(fault.Resource, "%d signatures wait already", maxQueued)
		}
		r.queued = append(r.queued, d)
		return 0, nil
	}
	return a.attachLocked(d)
}

// attachLocked adds those signatures that are good.
func (a *Authority) attachLocked(d *netdoc.DetachedSignatures) (added int, err error) {
	for _, c := range a.round.pending {
		good := *d
		good.Signatures = nil
		for _, s := range d.Signatures {
			crt := a.certs[s.KeyPair]
			if s.Flavor == c.Flavor.String() && crt != nil && c.CheckSignature(&s.Signature, crt) == nil {
				good.Signatures = append(good.Signatures, s)
			}
		}
		n, e := good.Attach(c)
		added += n
		if e != nil {
			err = e
		}
	}
	return added, err
}

// fetchSignatures asks the others for signatures unless everybody's are there.
func (a *Authority) fetchSignatures(ctx context.Context, t timing) {
	a.mu.Lock()
	want := slices.ContainsFunc(a.round.pending, func(c *netdoc.Consensus) bool { return len(c.Signatures) < len(a.round.votes) })
	a.mu.Unlock()
	if !want {
		return
	}
	a.toOthers(ctx, t.start, func(ctx context.Context, p peer) {
		body, err := p.get(ctx, "/tor/status-vote/next/consensus-signatures", 1<<20)
		if err != nil {
			a.log.Debug("signatures not fetched", "authority", p.Nickname, "err", err)
			return
		}
		d, err := netdoc.ParseDetachedSignatures(body)
		if err == nil {
			_, err = a.addSignatures(d)
		}
		if err != nil {
			a.log.Warn("fetched signatures", "from", p.Nickname, "err", err)
		}
	}).Wait()
}

// publish makes the round's consensuses the current ones if enough signed.
func (a *Authority) publish(t timing) {
	a.mu.Lock()
	var published []*netdoc.Consensus
	now := a.cfg.Now()
	for _, c := range a.round.pending {
		verdict := c.Verify(a.cfg.Network.V3Idents(), a.certLocked, now)
		if err := verdict.Err(); err != nil {
			a.log.Warn("consensus not published", "flavor", c.Flavor.String(), "err", err)
			continue
		}
		served, err := dirserver.NewConsensus(c.Append(nil))
		if err != nil {
			a.log.Error("consensus not published", "flavor", c.Flavor.String(), "err", err)
			continue
		}
		a.docs.SetConsensus(served)
		if err := a.saveConsensus(served); err != nil {
			a.log.Error("consensus not saved", "err", err)
		}
		if c.Flavor == netdoc.FlavorNS {
			a.current = c
			a.sr.published(c)
		}
		published = append(published, c)
		a.log.Info("published", "flavor", c.Flavor.String(), "relays", len(c.Routers), "signatures", len(verdict.Valid), "valid-after", t.start)
	}
	a.keepMicrodescsLocked()
	if err := a.saveLocked(); err != nil {
		a.log.Error("state not saved", "err", err)
	}
	a.mu.Unlock()
	if a.cfg.Published != nil {
		for _, c := range published {
			a.cfg.Published(c)
		}
	}
}

// keepMicrodescsLocked drops microdescriptors that neither a vote nor the
// consensus names.
func (a *Authority) keepMicrodescsLocked() {
	want := map[[32]byte]bool{}
	for _, r := range a.relays {
		for _, m := range a.cfg.Methods {
			_, d := netdoc.MakeMicrodesc(r.desc, m)
			want[d] = true
		}
	}
	for _, c := range a.round.pending {
		for i := range c.Routers {
			want[c.Routers[i].Microdesc] = true
		}
	}
	a.docs.KeepMicrodescs(func(d [32]byte) bool { return want[d] })
}
