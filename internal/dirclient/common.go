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
	// fewMicrodescs is below which number missing ones wait until fewWait after the last request
	// (launch_descriptor_downloads: MAX_DL_TO_DELAY, TestingClientMaxIntervalWithoutRequest).
	fewMicrodescs = 16
	fewWait       = 10 * time.Minute
	// microLater is how long after the tick for the consensus that for microdescriptors comes, if the client had no
	// directory at its start: C tor looks once a second for the former then, and every ten seconds for the latter.
	microLater = 9 * time.Second
)

// pace is by what clock a client that looks like C tor's asks for documents, once it has a directory: it looks once a
// minute for a consensus, and at another second of the minute for microdescriptors (fetch_networkstatus_callback and
// launch_descriptor_fetches_callback there).
type pace struct {
	consensus, micro time.Time // one of the ticks of each; zero: there is no directory yet
	look             time.Time // the next for microdescriptors
	tried            time.Time // when microdescriptors were asked for last
}

// paced reports whether there is such a clock: private networks are in a hurry.
func (c *Client) paced() bool {
	return c.cfg.Common && !c.cfg.Early && c.cfg.Network.Testing.VotingInterval == 0
}

// beginPace lets the clock begin with the first directory that is good enough, and reports whether it has.
func (c *Client) beginPace(now time.Time, fresh bool) bool {
	p := &c.pace
	if !c.paced() || !p.consensus.IsZero() || !c.Ready(c.cur.Load(), now) {
		return false
	}
	p.consensus, p.micro = now, now
	if fresh {
		p.micro = now.Add(microLater)
	}
	return true
}

// nextTick returns the first tick at or after a time.
func nextTick(one, at time.Time) time.Time {
	r := at.Sub(one) % commonTick
	if r > 0 {
		r -= commonTick
	}
	return at.Add(-r)
}

// onTick puts off a request for a consensus to the next tick.
func (c *Client) onTick(at time.Time) time.Time {
	if c.pace.consensus.IsZero() {
		return at
	}
	return nextTick(c.pace.consensus, at)
}

// fetchesMicrodescs reports whether missing microdescriptors are asked for now: at a tick, if there are many of them or
// the last request was some time ago, and not while nobody uses the client. It does not wait for a tick without which there
// would be no directory for circuits, unless nobody needs one.
func (c *Client) fetchesMicrodescs(now time.Time) bool {
	p := &c.pace
	if p.micro.IsZero() {
		return true
	}
	idle := c.cfg.Idle != nil && c.cfg.Idle()
	if !c.Ready(c.latest, now) && (!idle || !c.Ready(c.cur.Load(), now)) {
		return true
	}
	if !idle && c.cfg.Lacks != nil && c.cfg.Lacks(c.latest) {
		return true
	}
	if left := p.look.Sub(now); left > 0 && left <= commonTick {
		return false
	}
	first := p.look.IsZero()
	p.look = nextTick(p.micro, now.Add(1))
	return !first && !idle && (len(c.latest.MissingMicrodescs()) >= fewMicrodescs || now.Sub(p.tried) >= fewWait || now.Before(p.tried))
}

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
