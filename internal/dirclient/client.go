package dirclient

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netdir"
)

// Client holds a client's directory and, while Run runs, keeps it up to date.
type Client struct {
	cfg Config
	log *slog.Logger
	cur atomic.Pointer[netdir.Directory] // the published directory

	mu      sync.Mutex
	changed chan struct{} // guarded by mu; closed when cur is replaced
	ended   error         // guarded by mu; why Run ended

	// Owned by Run, and by Load before Run starts.
	store      store
	loader     netdir.Loader
	certs      certStore
	latest     *netdir.Directory // the newest verified directory; cur follows it
	signed     [32]byte          // SHA3-256 of the latest consensus's signed part
	loaded     bool
	warnedSkew bool
	advice     netdir.Advice
	reported   Progress
	pace       pace
	boot       bootSchedule
	delays     delays
	pending    map[[32]byte]bool // microdescriptors that are on their way, of a paced client
	answered   bool              // a cache answered the last request for a consensus, with whatever but that it is busy
	retry      chan struct{}     // full when Retry was called
	retried    time.Time         // when that had an effect
}

// New returns a client without directory.
func New(cfg Config) *Client {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Client{cfg: cfg, log: cfg.Log, changed: make(chan struct{}), retry: make(chan struct{}, 1), delays: delays{}, store: store{dir: cfg.Dir, log: cfg.Log}, loader: netdir.Loader{Shared: cfg.Shared}, certs: newCertStore(cfg.Network.V3Idents())}
}

// Directory returns the newest directory that was published. It may lack
// microdescriptors, or be too old for circuits: see Ready. It is nil if there is none yet.
func (c *Client) Directory() *netdir.Directory { return c.cur.Load() }

// now returns the time without the monotonic reading: that clock stops while the
// machine is suspended, and differences of times would be too small.
func (c *Client) now() time.Time { return c.cfg.Now().Round(0) }

// Changed returns a channel that is closed when another directory is
// published, or when Run ends.
func (c *Client) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Ready reports whether d is good enough to build circuits with at now.
func (c *Client) Ready(d *netdir.Directory, now time.Time) bool {
	return d != nil && d.ReasonablyLive(now) && d.Enough(c.cfg.Bridged != nil && c.cfg.Bridged())
}

// Wait waits for a directory that is good enough to build circuits with, and
// returns it. It returns an error if ctx is done or Run has ended.
func (c *Client) Wait(ctx context.Context) (*netdir.Directory, error) {
	for {
		changed := c.Changed() // call this before Directory, so that no change is missed
		if d := c.Directory(); c.Ready(d, c.now()) {
			return d, nil
		}
		c.mu.Lock()
		ended := c.ended
		c.mu.Unlock()
		if ended != nil {
			return nil, ended
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fault.New(fault.Timeout, "waiting for directory information: %w", context.Cause(ctx))
		}
	}
}

// Load reads the cache, if that was not done before, and publishes the documents
// that are still good for something: see oldest. Run does this itself. A caller that needs the old directory
// earlier calls Load before Run.
func (c *Client) Load() {
	if c.loaded {
		return
	}
	c.loaded = true
	c.store.sweep()
	now := c.now()
	if text := c.store.read(certsFile); len(text) > 0 {
		if _, err := c.certs.add(text, now); err != nil {
			c.store.setAside(certsFile, err)
			c.store.write(certsFile, c.certs.text())
		}
	}
	doc := c.store.read(consensusFile)
	if doc == nil {
		return
	}
	d, parsed, err := c.loader.Consensus(doc, nil)
	if err != nil {
		c.store.setAside(consensusFile, err)
		return
	}
	v := parsed.Verify(c.cfg.Network.V3Idents(), c.certs.get, now)
	if err := v.Err(); err != nil && len(v.Missing) > 0 {
		c.log.Info("directory cache: the consensus cannot be verified without new certificates", "err", err)
		return
	} else if err != nil {
		c.store.setAside(consensusFile, err)
		return
	}
	if !d.ReasonablyLive(now) && !c.keepsOld(d, now) {
		c.log.Info("directory cache: the consensus is too old to be used", "valid_until", d.ValidUntil())
		return
	}
	adding := c.loader.Add(d)
	if k := c.cfg.Keeper; k != nil {
		k.KeepCerts(c.certs.list())
		k.KeepConsensus(doc)
	}
	c.store.loadMicrodescs(adding, c.keepMicrodesc)
	c.take(adding.Directory(), parsed)
}

// oldest is how long after its end a consensus is still good for two things, as in C tor (OLD_ROUTER_DESC_MAX_AGE): to say where the guards are,
// which are asked for the next one, and what the next one has in common with it.
const oldest = 5 * 24 * time.Hour

// keepsOld reports whether a consensus that is too old for circuits is kept until there is a newer one. Whoever serves others has no use for it.
func (c *Client) keepsOld(d *netdir.Directory, now time.Time) bool {
	return !c.cfg.Early && c.cfg.Keeper == nil && now.Before(d.ValidUntil().Add(oldest)) && now.After(d.ValidAfter())
}

// Retry has documents asked for again soon that are waited for after failures, if there is too little for circuits: somebody wants one now.
func (c *Client) Retry() {
	select {
	case c.retry <- struct{}{}:
	default:
	}
}

// Run loads the cache, fetches missing documents and renews old ones until ctx is
// done; then it returns nil. It returns an error if the network requires a protocol
// that this program does not support. Only one Run may be active at a time.
func (c *Client) Run(ctx context.Context) error {
	c.mu.Lock()
	c.ended = nil
	c.mu.Unlock()
	err := c.run(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = err
	if err == nil {
		c.ended = fault.New(fault.Closed, "directory client: it was stopped")
	}
	close(c.changed)
	c.changed = make(chan struct{})
	return err
}

func (c *Client) run(ctx context.Context) error {
	c.progress(Progress{Phase: PhaseConsensus})
	c.Load()
	var consensus, micro task
	if c.latest != nil {
		consensus.plan(c.refreshTime(), c.now())
	}
	var checked *netdir.Directory
	aged := c.bootstrapping()
	c.pace = pace{fresh: aged}
	c.boot = bootSchedule{}
	for ctx.Err() == nil {
		if hold := c.cfg.Hold; hold != nil && !hold(ctx) {
			return nil
		}
		if c.pace.began.IsZero() {
			c.pace.began = c.now()
		}
		if c.beginPace(c.now()) {
			consensus.plan(c.onTick(consensus.at), c.now())
		}
		if c.latest != checked {
			if err := c.checkProtocols(); err != nil {
				return err
			}
			checked = c.latest
		}
		now := c.now()
		if was := aged; c.cfg.Common {
			if aged = c.bootstrapping(); aged && !was { // the pauses of before are not those of a start
				c.boot = bootSchedule{}
				consensus.plan(now, now)
			}
		}
		if consensus.due(now) {
			changed, err := c.updateConsensus(ctx)
			if ctx.Err() != nil {
				return nil
			}
			c.settleConsensus(&consensus, &micro, changed, err)
			continue
		}
		lacks := !c.bootstrapping() && len(c.latest.MissingMicrodescs()) > 0
		if lacks && micro.due(now) && c.fetchesMicrodescs(now) {
			err := c.updateMicrodescs(ctx, &consensus)
			if ctx.Err() != nil {
				return nil
			}
			if c.paced() && err != nil {
				c.log.Info("directory: microdescriptors", "err", err)
			} else {
				micro.settle(err, c.now(), c.log, "directory: microdescriptors")
			}
			continue
		}
		wake := consensus.at
		if lacks && micro.at.Before(wake) {
			if wake = micro.at; wake.Before(c.pace.look) {
				wake = c.pace.look
			}
		}
		if c.sleep(ctx, min(wake.Sub(now), longestSleep)) && !c.Ready(c.cur.Load(), c.now()) {
			c.hurry(&consensus, &micro)
		}
	}
	return nil
}

// hurry forgets the failures of before, and has documents asked for now; or a second after the last time, however many want them.
func (c *Client) hurry(consensus, micro *task) {
	now, at := c.now(), c.now()
	switch since := now.Sub(c.retried); {
	case since < 0 && since >= -time.Second:
		return // it is planned
	case since >= 0 && since < time.Second:
		at = c.retried.Add(time.Second)
	}
	c.retried = at
	if c.latest == nil || !c.latest.Live(now) {
		consensus.reset()
		consensus.plan(at, now)
		c.boot = bootSchedule{}
	}
	micro.reset()
	micro.plan(at, now)
	c.pace.look, c.pace.tried = at, time.Time{}
}

// settleConsensus plans the next steps after an attempt to get a newer consensus.
func (c *Client) settleConsensus(consensus, micro *task, changed bool, err error) {
	now := c.now()
	if err != nil {
		at := c.boot.next()
		if at.Before(now) {
			at = now
		}
		if !c.cfg.Common || !c.bootstrapping() {
			at = c.onTick(now.Add(c.consensusDelay(consensus)))
		}
		consensus.again(err, at.Sub(now), now, c.log, "directory: consensus")
		return
	}
	if !changed { // there is nothing newer yet, and all other clients ask too: wait longer each time
		consensus.plan(c.onTick(now.Add(c.consensusDelay(consensus))), now)
		return
	}
	if c.pace.look = (time.Time{}); c.pace.got.IsZero() {
		c.pace.got = now
	}
	at := c.refreshTime()
	if !at.After(now) { // the cache sent an old one
		at = now.Add(c.consensusDelay(consensus))
	} else {
		consensus.reset()
	}
	consensus.plan(c.onTick(at), now)
	*micro = task{}
	if c.store.journalSize > int64(c.latest.Len())*meanMicrodesc*3 {
		c.store.compact(c.latest)
	}
}

// meanMicrodesc is the approximate size of a microdescriptor, in bytes. The journal
// is cleaned when it has grown to a multiple of the size that the network needs.
const meanMicrodesc = 700

// sleep waits, and reports whether Retry has ended it.
func (c *Client) sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-c.retry:
		return true
	}
	return false
}

// checkProtocols refuses a network that requires a protocol that this program does not support,
// and warns once of each set of versions that the network recommends.
func (c *Client) checkProtocols() error {
	advised, refused := c.latest.Judge(c.cfg.Speaker)
	c.advice.Warn(c.log, advised)
	return refused
}
