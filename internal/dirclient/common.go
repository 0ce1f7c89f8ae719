package dirclient

import "time"

// How C tor's clients ask for a consensus (consensus_bootstrap_dl_status and consensus_dl_status there), which a
// cache sees: a request that fails is followed by one to another cache at a later second, not at once. While there is no consensus that is
// in time, another cache is asked beside the first only until that one has a stream, for which it has a second.
// Chive asks beside one that does not answer, too, after hedge, which C tor does not: a cache could hold up the start else.

const (
	// commonConnect is the time for a circuit and a stream to a cache while there is no directory.
	commonConnect = time.Second
	// commonTick is how often a client with a directory looks whether it should ask again.
	commonTick = time.Minute
)

// bootstrapping reports whether there is no consensus that can be used.
func (c *Client) bootstrapping() bool { return c.latest == nil || !c.latest.ReasonablyLive(c.now()) }

// consensusDelay returns the time until the next request for a consensus, after one that has failed.
func (c *Client) consensusDelay(b *backoff) time.Duration {
	d := b.next()
	if !c.cfg.Common {
		return d
	}
	d = d.Truncate(time.Second)
	b.last = d
	if !c.bootstrapping() {
		d = max(d, commonTick)
	}
	return d
}
