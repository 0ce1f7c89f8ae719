package authority

import (
	"context"
	"time"

	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdoc"
)

// catchUpLimit bounds the time to ask the other authorities for a missed
// consensus.
const catchUpLimit = 5 * time.Second

// maxCerts bounds the fetched certificates of all authorities.
const maxCerts = 1 << 20

// catchUp asks the other authorities for the consensus if this authority has no
// fresh one because it was not running, or missed a round. Without the consensus,
// it would vote at other times than the others, and have other shared random
// values.
func (a *Authority) catchUp(ctx context.Context) {
	for again := false; !a.fresh(); again = true {
		a.toOthers(ctx, a.cfg.Now().Add(catchUpLimit), func(ctx context.Context, p peer) {
			if err := a.catchUpFrom(ctx, p); err != nil {
				a.log.Debug("no consensus from another authority", "authority", p.Nickname, "err", err)
			}
		}).Wait()
		// The others may publish it a moment later than this authority could have.
		if at := a.surelyPublished(); again || !a.cfg.Now().Before(at) || !a.waitUntil(ctx, at) {
			return
		}
	}
}

func (a *Authority) fresh() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.current != nil && a.cfg.Now().Before(a.current.FreshUntil)
}

// surelyPublished returns when the others have published the consensus of the present
// interval, if they have one: relays ask for it from then on. If this authority has that
// consensus already, or no valid one, it is zero.
func (a *Authority) surelyPublished() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	live, now := a.liveLocked(), a.cfg.Now()
	if live == nil || live.interval <= 0 || now.Before(a.current.FreshUntil) {
		return time.Time{}
	}
	late := now.Sub(a.current.FreshUntil) / live.interval * live.interval
	return a.current.FreshUntil.Add(late + min(live.interval/16, 2*time.Minute))
}

func (a *Authority) catchUpFrom(ctx context.Context, p peer) error {
	var texts [2][]byte
	for i, name := range []string{"consensus", "consensus-microdesc"} {
		var err error
		if texts[i], err = p.get(ctx, "/tor/status-vote/current/"+name, netdoc.MaxConsensus); err != nil {
			return err
		}
	}
	text, err := p.get(ctx, "/tor/keys/all", maxCerts)
	if err != nil {
		return err
	}
	var certs []*netdoc.AuthCert
	netdoc.ParseAuthCerts(text, func(c *netdoc.AuthCert, err error) {
		if err == nil {
			certs = append(certs, c)
		}
	})
	a.addCerts(certs)
	for _, text := range texts {
		if err := a.adopt(text); err != nil {
			return err
		}
	}
	if f := a.cfg.TookOver; f != nil {
		f()
	}
	a.keepConsensuses()
	return nil
}

func (a *Authority) addCerts(certs []*netdoc.AuthCert) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range certs {
		a.addCertLocked(c)
	}
}

func (a *Authority) verify(c *netdoc.Consensus, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	verdict := c.Verify(a.cfg.Network.V3Idents(), a.certLocked, now)
	return verdict.Err()
}

// adopt takes over a consensus that others published, if it is valid and newer.
// It holds mu for short steps only: the answer of a DirPort is not authenticated,
// and may take long to check.
func (a *Authority) adopt(text []byte) error {
	c, listed, err := readConsensus(text)
	if err != nil {
		return err
	}
	now := a.cfg.Now()
	if err := a.verify(c, now); err != nil {
		return err
	}
	if now.Before(c.ValidAfter) || now.After(c.ValidUntil) {
		return fault.New(fault.Directory, "the consensus is not valid now")
	}
	served, err := dirserver.NewConsensus(text)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.docs.Consensus(c.Flavor); old != nil && !c.ValidAfter.After(old.ValidAfter) {
		return nil
	}
	a.docs.SetConsensus(served)
	a.obeyLocked(c)
	if c.Flavor == netdoc.FlavorNS {
		a.current, a.listed = c, listed
		a.sr.published(c)
		a.believeLocked()
		a.log.Info("took over a consensus", "valid_after", c.ValidAfter)
	}
	return a.saveConsensus(served)
}
