package dirclient

import "time"

// How C tor's clients ask for documents, which a cache sees. While there is no consensus that is in time: see boot.go. Later, a request that fails is followed
// by one at a later tick, not at once, and no second cache is asked beside a slow one. Microdescriptors: see microagain.go.

const (
	// commonTick is how often a client with a directory looks whether it should ask again.
	commonTick = time.Minute
	// greedyTick is how often it looks for microdescriptors while it has too few (GREEDY_DESCRIPTOR_RETRY_INTERVAL).
	greedyTick = 10 * time.Second
	// fewMicrodescs is below which number missing ones wait until fewWait after the last request, if there are
	// enough (launch_descriptor_downloads: MAX_DL_TO_DELAY, TestingClientMaxIntervalWithoutRequest).
	fewMicrodescs = 16
	fewWait       = 10 * time.Minute
	// commonStall is how long an answer may rest (TestingDirConnectionMaxStall, at a look once a second).
	commonStall = 5*time.Minute + time.Second
)

// pace is by what clock a client that looks like C tor's asks for documents: it looks once a second for a consensus while there is none in time, and
// once a minute after that; and for microdescriptors every ten seconds while there are too few, and once a minute after that
// (fetch_networkstatus_callback and launch_descriptor_fetches_callback there).
type pace struct {
	began            time.Time // when it began to ask
	fresh            bool      // without a consensus in time
	got              time.Time // when the first one came
	consensus, micro time.Time // one of the ticks of each minute; zero: there is no directory that is good enough yet
	look             time.Time // the next for microdescriptors
	tried            time.Time // when microdescriptors were asked for last
	asked            time.Time // of which consensus's, by its valid-after time
}

// paced reports whether there is such a clock: private networks are in a hurry.
func (c *Client) paced() bool {
	return c.cfg.Common && !c.cfg.Early && c.cfg.Network.Testing.VotingInterval == 0
}

// beginPace lets the clock begin with the first directory that is good enough, and reports whether it has.
func (c *Client) beginPace(now time.Time) bool {
	p := &c.pace
	if !c.paced() || !p.consensus.IsZero() || !c.Ready(c.cur.Load(), now) {
		return false
	}
	p.consensus, p.micro = p.began, p.began
	if p.fresh && !p.got.IsZero() {
		p.consensus = nextTick(p.began, p.got.Add(1), time.Second)
	}
	if p.fresh || !p.tried.IsZero() {
		p.micro = nextTick(p.began, now.Add(1), greedyTick)
	}
	return true
}

// nextTick returns the first tick at or after a time.
func nextTick(one, at time.Time, every time.Duration) time.Time {
	r := at.Sub(one) % every
	if r > 0 {
		r -= every
	}
	return at.Add(-r)
}

// onTick puts off a request for a consensus to the next tick.
func (c *Client) onTick(at time.Time) time.Time {
	if c.pace.consensus.IsZero() {
		return at
	}
	return nextTick(c.pace.consensus, at, commonTick)
}

// bootstrapping reports whether there is no consensus that can be used.
func (c *Client) bootstrapping() bool { return c.latest == nil || !c.latest.ReasonablyLive(c.now()) }

// consensusDelay returns the time until the next request for a consensus may come, after one that brought none. C tor counts a failure
// twice if the cache has answered (handle_response_fetch_consensus and connection_dir_client_request_failed).
func (c *Client) consensusDelay(t *task) time.Duration {
	if !c.cfg.Common {
		return t.backoff.next()
	}
	d := t.pause.next(0)
	if c.answered {
		d = t.pause.next(0)
	}
	if c.paced() && c.pace.consensus.IsZero() {
		d = max(d, commonTick)
	}
	return d
}
