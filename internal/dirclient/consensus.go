package dirclient

import (
	"context"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
)

// consensusRequest returns the request for a consensus that a majority of the
// authorities signed and that is newer than the latest one, or for a diff to it.
func (c *Client) consensusRequest() *request {
	var prefixes []string
	for _, id := range c.cfg.Network.V3Idents() {
		prefixes = append(prefixes, id.String()[:6])
	}
	slices.Sort(prefixes)
	r := &request{path: "/tor/status-vote/current/consensus-microdesc/" + strings.Join(prefixes, "+") + ".z", limit: consensusLimit}
	if c.latest != nil {
		r.since = c.latest.ValidAfter().Add(min(3*time.Minute, c.latest.FreshUntil().Sub(c.latest.ValidAfter())/2)) // as C tor does
		newest := time.Duration(c.latest.Param("try-diff-for-consensus-newer-than", 72, 0, 8192)) * time.Hour
		if c.signed != [32]byte{} && c.now().Sub(c.latest.ValidAfter()) <= newest {
			r.diff = strings.ToUpper(hex.EncodeToString(c.signed[:]))
		}
	}
	return r
}

// updateConsensus fetches and verifies a newer consensus and makes it the latest
// one. changed is false if there is none. Missing certificates are fetched from the
// cache that gave the consensus, as C tor does: to ask others at the same time saves a round
// trip at the first start, but takes links that no C tor's client has.
func (c *Client) updateConsensus(ctx context.Context) (changed bool, err error) {
	c.answered = false
	ask := func(ctx context.Context, r *request, accept func(*response) error) error {
		return c.race(ctx, Query{Purpose: Consensus}, r, accept)
	}
	if c.cfg.Common && c.bootstrapping() {
		ask = c.bootConsensus
	}
	err = ask(ctx, c.consensusRequest(), func(res *response) (err error) {
		c.answered = res.status != http.StatusServiceUnavailable
		c.checkClock(res)
		switch {
		case res.status == http.StatusNotModified && !c.bootstrapping():
			return nil
		case res.status != http.StatusOK:
			return statusError(res)
		}
		changed, err = c.takeConsensus(ctx, res)
		return err
	})
	return changed, err
}

// takeConsensus checks a consensus, or applies and checks a diff.
func (c *Client) takeConsensus(ctx context.Context, res *response) (changed bool, err error) {
	doc := res.body
	if netdoc.IsDiff(doc) {
		if doc, err = netdoc.ApplyDiff(c.store.read(consensusFile), doc); err != nil {
			c.signed = [32]byte{} // fetch the whole consensus next time: perhaps our file is wrong
			return false, err
		}
	}
	defer func() {
		if err != nil { // whoever sent it chose what the loader would keep
			c.loader = netdir.Loader{Shared: c.cfg.Shared}
		}
	}()
	d, parsed, err := c.loader.Consensus(doc, c.latest)
	if err != nil {
		return false, err
	}
	now := c.now()
	if !d.ReasonablyLive(now) {
		return false, fault.New(fault.Directory, "consensus: it is valid from %s to %s, but this machine's clock says %s UTC", d.ValidAfter().Format(netdoc.TimeFormat), d.ValidUntil().Format(netdoc.TimeFormat), now.UTC().Format(netdoc.TimeFormat))
	}
	if c.latest != nil && d.ValidAfter().Before(c.latest.ValidAfter()) {
		return false, fault.New(fault.Directory, "consensus: it is older than the present one")
	}
	if err := c.verify(ctx, parsed, res.cache, now); err != nil {
		return false, err
	}
	if c.latest != nil && d.ValidAfter().Equal(c.latest.ValidAfter()) {
		return false, nil
	}
	stored := c.store.write(consensusFile, doc)
	if k := c.cfg.Keeper; k != nil {
		k.KeepConsensus(doc)
	}
	c.take(d, parsed)
	if !stored { // a diff could not be applied
		c.signed = [32]byte{}
	}
	return true, nil
}

// spareCerts bounds the time for certificates that are not needed: the consensus waits for it.
const spareCerts = 10 * time.Second

// verify checks the signatures. It fetches the certificates of authorities that it has none
// of, and then those of signing keys that are still missing, if they are needed, or caches and C tor's
// clients ask for them; from is the cache that it asks first.
func (c *Client) verify(ctx context.Context, parsed *netdoc.Consensus, from ident.RelayID, now time.Time) error {
	trusted := c.cfg.Network.V3Idents()
	q := Query{Purpose: Certificates, From: from}
	if ids := c.certs.without(trusted, now); len(ids) > 0 {
		text, err := c.fetchCerts(ctx, q, certsByIdentity(ids))
		if err != nil && ctx.Err() == nil {
			c.log.Info("directory: certificates could not be fetched", "err", err)
		}
		c.addCerts(text, now)
	}
	v := parsed.Verify(trusted, c.certs.get, now)
	// The clients of a directory cache ask it also for those that are not needed, as C tor's do.
	if len(v.Missing) > 0 && (!v.OK() || c.cfg.Keeper != nil || c.cfg.Common) {
		limited, cancel := ctx, context.CancelFunc(func() {})
		if v.OK() && c.cfg.Keeper == nil {
			limited, cancel = context.WithTimeout(ctx, spareCerts)
		}
		text, err := c.fetchCerts(limited, q, certsByKey(v.Missing))
		cancel()
		if err != nil && !v.OK() {
			return err
		}
		c.addCerts(text, now)
		v = parsed.Verify(trusted, c.certs.get, now)
	}
	return v.Err()
}

func (c *Client) addCerts(text []byte, now time.Time) {
	n, err := c.certs.add(text, now)
	if err != nil {
		c.log.Warn("directory: a certificate was refused", "err", err)
	}
	if n > 0 {
		c.certs.prune(now)
		c.store.write(certsFile, c.certs.text())
		if k := c.cfg.Keeper; k != nil {
			k.KeepCerts(c.certs.list())
		}
	}
}

// maxSkew is how far a cache's clock may be from ours before a warning is logged.
const maxSkew = 30 * time.Minute

// checkClock logs a warning, once, if a cache's clock differs so much that ours
// may be wrong.
func (c *Client) checkClock(res *response) {
	if res.date.IsZero() || c.warnedSkew {
		return
	}
	if skew := res.date.Sub(c.now()); skew.Abs() > maxSkew {
		c.warnedSkew = true
		c.log.Warn("directory: a cache's clock differs from this machine's", "ahead_by", skew.Round(time.Second))
	}
}

// take makes d the newest directory. It is published at once unless the
// published one is still good and has more microdescriptors.
func (c *Client) take(d *netdir.Directory, parsed *netdoc.Consensus) {
	c.latest, c.signed = d, parsed.SHA3Signed
	if s := c.cfg.Shared; s != nil {
		s.Verified(d)
	}
	c.offer()
}
