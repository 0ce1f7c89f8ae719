package dirclient

import (
	"context"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
)

// consensusRequest returns the request for a consensus that a majority of the
// authorities signed and that is newer than the latest one, or for a diff to it.
func (c *Client) consensusRequest() *request {
	var prefixes []string
	for _, id := range c.cfg.Network.V3Idents() {
		prefixes = append(prefixes, id.String()[:6])
	}
	slices.Sort(prefixes)
	r := &request{path: "/tor/status-vote/current/consensus-microdesc/" + strings.Join(prefixes, "+"), limit: consensusLimit}
	if c.latest != nil {
		r.since = c.latest.ValidAfter().Add(min(3*time.Minute, c.latest.FreshUntil().Sub(c.latest.ValidAfter())/2)) // as C tor does
		if c.signed != [32]byte{} {
			r.diff = strings.ToUpper(hex.EncodeToString(c.signed[:]))
		}
	}
	return r
}

// updateConsensus fetches and verifies a newer consensus and makes it the latest
// one. changed is false if there is none. Missing certificates are fetched at the
// same time.
func (c *Client) updateConsensus(ctx context.Context) (changed bool, err error) {
	certs := c.startCerts(ctx)
	defer certs.stop()
	err = c.race(ctx, Consensus, c.consensusRequest(), func(res *response) (err error) {
		c.checkClock(res)
		switch {
		case res.status == http.StatusNotModified && c.latest != nil:
			return nil
		case res.status != http.StatusOK:
			return statusError(res)
		}
		changed, err = c.takeConsensus(ctx, res.body, certs)
		return err
	})
	return changed, err
}

// takeConsensus checks a consensus, or applies and checks a diff.
func (c *Client) takeConsensus(ctx context.Context, doc []byte, certs *certFetch) (changed bool, err error) {
	if netdoc.IsDiff(doc) {
		if doc, err = netdoc.ApplyDiff(c.store.read(consensusFile), doc); err != nil {
			c.signed = [32]byte{} // fetch the whole consensus next time: perhaps our file is wrong
			return false, err
		}
	}
	defer func() {
		if err != nil { // whoever sent it chose what the loader would keep
			c.loader = netdir.Loader{}
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
	if err := c.verify(ctx, parsed, certs, now); err != nil {
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

// verify checks the signatures. It waits for certificates that are being fetched,
// and fetches those that are still missing, if they are needed.
func (c *Client) verify(ctx context.Context, parsed *netdoc.Consensus, certs *certFetch, now time.Time) error {
	trusted := c.cfg.Network.V3Idents()
	v := parsed.Verify(trusted, c.certs.get, now)
	if !v.OK() {
		c.addCerts(certs.wait(), now)
		v = parsed.Verify(trusted, c.certs.get, now)
	}
	// The clients of a directory cache ask it also for those that are not needed.
	if len(v.Missing) > 0 && (!v.OK() || c.cfg.Keeper != nil) {
		text, err := c.fetchCerts(ctx, certsByKey(v.Missing))
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

// certFetch is a fetch of certificates at the same time as that of the consensus;
// nil if none is needed.
type certFetch struct {
	cancel context.CancelFunc
	done   chan struct{}
	text   []byte
}

func (c *Client) startCerts(ctx context.Context) *certFetch {
	ids := c.certs.without(c.cfg.Network.V3Idents())
	if len(ids) == 0 {
		return nil
	}
	f := &certFetch{done: make(chan struct{})}
	ctx, f.cancel = context.WithCancel(ctx)
	go func() {
		defer panics.Recover(c.log, nil)
		defer close(f.done)
		var err error
		if f.text, err = c.fetchCerts(ctx, certsByIdentity(ids)); err != nil && ctx.Err() == nil {
			c.log.Info("directory: certificates could not be fetched", "err", err)
		}
	}()
	return f
}

// wait returns the fetched text, only on its first call; nil if there is none.
func (f *certFetch) wait() []byte {
	if f == nil {
		return nil
	}
	<-f.done
	return f.text
}

func (f *certFetch) stop() {
	if f != nil {
		f.cancel()
		<-f.done
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
	c.offer()
}
