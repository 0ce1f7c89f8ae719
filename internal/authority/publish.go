package authority

import (
	"context"
	"slices"

	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

// computeConsensus computes both flavors from the votes that have come, signs
// them and sends the signatures to the others.
func (a *Authority) computeConsensus(ctx context.Context, t timing) {
	detached, err := a.compute()
	if err != nil {
		a.log.Warn("no consensus", "err", err)
		return
	}
	a.toOthers(ctx, t.publish, func(ctx context.Context, p peer) {
		if err := p.post(ctx, "/tor/post/consensus-signature", detached); err != nil {
			a.log.Warn("signatures not taken", "authority", p.Nickname, "err", err)
		}
	})
}

func (a *Authority) compute() ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.round
	var votes []*netdoc.Vote
	running := false
	r.texts, r.detached = [2]*dirserver.Doc{}, nil
	for _, v := range r.votes {
		votes = append(votes, v)
		running = running || slices.Contains(v.KnownFlags, "Running")
	}
	if !running {
		return nil, fault.New(fault.Directory, "no authority votes on the Running flag: a consensus would have no relays")
	}
	rules := Rules{Authorities: len(a.cfg.Network.Authorities), Methods: a.cfg.Methods, FreshSRV: a.sr.Fresh}
	var pending []*netdoc.Consensus
	ns, micro, err := Compute(votes, rules)
	if err != nil {
		return nil, err
	}
	for _, c := range []*netdoc.Consensus{ns, micro} {
		c.AppendUnsigned(nil) // sets the digests
		if err := c.Sign(a.cfg.Rand, a.me, a.cfg.Keys.Signing); err != nil {
			return nil, err
		}
		pending = append(pending, c)
	}
	if theirs, ours := chooseMethod(votes), pending[0].Method; theirs != ours {
		a.log.Warn("consensus method not supported", "chosen", theirs, "used", ours)
	}
	r.pending = pending
	own := netdoc.Detach(pending[0], pending[1]).Append(nil)
	for _, d := range r.early.all() {
		if err := a.attachFlavorLocked(&d); err != nil {
			a.log.Warn("early signature", "authority", d.Signatures[0].Identity, "err", err)
		}
	}
	r.early = early{}
	return own, nil
}

// fetchSignatures asks the other authorities for signatures, unless all
// signatures have come.
func (a *Authority) fetchSignatures(ctx context.Context, t timing) {
	a.mu.Lock()
	none, whole := len(a.round.pending) == 0, a.round.signed()
	a.mu.Unlock()
	if none || whole {
		return
	}
	a.toOthers(ctx, t.publish, func(ctx context.Context, p peer) {
		body, err := p.get(ctx, "/tor/status-vote/next/consensus-signatures", maxSignatures)
		if err != nil {
			a.log.Debug("signatures not fetched", "authority", p.Nickname, "err", err)
			return
		}
		d, err := netdoc.ParseDetachedSignatures(body)
		if err == nil {
			_, err = a.addSignatures(d, p.DirPort.Addr())
		}
		if err != nil {
			a.log.Warn("fetched signatures", "from", p.Nickname, "err", err)
		}
	}).Wait()
}

// publish makes the round's consensuses the current ones if enough signed.
func (a *Authority) publish(t timing) {
	published := a.publishSigned(t)
	if a.cfg.Published != nil {
		for _, c := range published {
			a.cfg.Published(c)
		}
	}
	a.keepConsensuses()
}

// keepConsensuses keeps the current consensuses for diffs. It takes a part of a second and must not hold mu.
func (a *Authority) keepConsensuses() {
	for _, f := range []netdoc.Flavor{netdoc.FlavorNS, netdoc.FlavorMicrodesc} {
		if c := a.docs.Consensus(f); c != nil {
			if err := a.docs.Keep(c); err != nil {
				a.log.Warn("consensus not kept for later diffs", "flavor", f.String(), "err", err)
			}
		}
	}
}

func (a *Authority) publishSigned(t timing) (published []*netdoc.Consensus) {
	a.mu.Lock()
	defer a.mu.Unlock()
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
			without := *c
			without.Routers = nil
			a.current, a.listed = &without, listingOf(c)
			a.sr.published(c)
		}
		a.obeyLocked(c)
		published = append(published, c)
		a.log.Info("published", "flavor", c.Flavor.String(), "relays", len(c.Routers), "signatures", len(verdict.Valid), "valid_after", t.start)
	}
	a.keepMicrodescsLocked()
	if err := a.saveLocked(); err != nil {
		a.log.Error("state not saved", "err", err)
	}
	return published
}
