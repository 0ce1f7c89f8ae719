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
	ended   error         // guarded by mu; why Run is over

	// Owned by Run, and by Load before it.
	store      store
	loader     netdir.Loader
	certs      certStore
	latest     *netdir.Directory // the newest verified one; cur follows it
	signed     [32]byte          // SHA3-256 of the latest consensus's signed part
	loaded     bool
	warnedSkew bool
	reported   Progress
}

// New returns a client without directory.
func New(cfg Config) *Client {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Client{cfg: cfg, log: cfg.Log, changed: make(chan struct{}), store: store{dir: cfg.Dir, log: cfg.Log}, certs: newCertStore(cfg.Network.V3Idents())}
}

// Directory returns the newest directory that was published, which may lack
// microdescriptors; nil before there is any.
func (c *Client) Directory() *netdir.Directory { return c.cur.Load() }

// now is the date: without the monotonic reading, by which two times differ
// less than they should when the machine was suspended in between.
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
	return d != nil && d.ReasonablyLive(now) && d.Enough(c.cfg.PathsNeeded)
}

// Wait waits until there is a directory that is good enough to build circuits
// with, and returns it. It returns an error when ctx is done or Run has ended.
func (c *Client) Wait(ctx context.Context) (*netdir.Directory, error) {
	for {
		changed := c.Changed() // before looking, so that no change is missed
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

// Load reads the cache, unless that was done before, and publishes what is
// good in it. Run does it by itself; a caller that wants the old directory
// before anything else calls it first.
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
	if !d.ReasonablyLive(now) {
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

// Run loads the cache, fetches what is missing and renews what grows old until
// ctx is done; then it returns nil. It returns an error when the network
// requires what this program does not speak. One Run at a time.
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
		consensus.plan(refreshTime(c.latest, c.cfg.Network.Testing.VotingInterval), c.now())
	}
	var checked *netdir.Directory
	for ctx.Err() == nil {
		if c.latest != checked {
			if err := c.checkProtocols(); err != nil {
				return err
			}
			checked = c.latest
		}
		now := c.now()
		if consensus.due(now) {
			changed, err := c.updateConsensus(ctx)
			if ctx.Err() != nil {
				return nil
			}
			c.settleConsensus(&consensus, &micro, changed, err)
			continue
		}
		lacks := c.latest != nil && len(c.latest.MissingMicrodescs()) > 0
		if lacks && micro.due(now) {
			err := c.updateMicrodescs(ctx)
			if ctx.Err() != nil {
				return nil
			}
			micro.settle(err, c.now(), c.log, "directory: microdescriptors")
			continue
		}
		wake := consensus.at
		if lacks && micro.at.Before(wake) {
			wake = micro.at
		}
		c.sleep(ctx, min(wake.Sub(now), longestSleep))
	}
	return nil
}

// settleConsensus plans what follows an attempt at a newer consensus.
func (c *Client) settleConsensus(consensus, micro *task, changed bool, err error) {
	if err != nil || !changed {
		consensus.settle(err, c.now(), c.log, "directory: consensus")
		if err == nil { // nothing newer yet
			now := c.now()
			consensus.plan(now.Add(consensus.backoff.next()), now)
		}
		return
	}
	at, now := refreshTime(c.latest, c.cfg.Network.Testing.VotingInterval), c.now()
	if !at.After(now) { // the cache had an old one
		at = now.Add(consensus.backoff.next())
	} else {
		consensus.backoff.reset()
	}
	consensus.plan(at, now)
	*micro = task{}
	if c.store.journalSize > int64(c.latest.Len())*meanMicrodesc*3 {
		c.store.compact(c.latest)
	}
}

// meanMicrodesc is about the size of a microdescriptor; the journal is cleaned
// when it has grown to a multiple of what a network needs.
const meanMicrodesc = 700

// task is something that is tried again, later and later, until it succeeds.
type task struct {
	at      time.Time     // of the next attempt
	wait    time.Duration // until then, when it was planned
	backoff backoff
}

func (t *task) plan(at, now time.Time) { t.at, t.wait = at, at.Sub(now) }

// due reports whether the time has come, or can no longer be told because the
// clock was set back.
func (t *task) due(now time.Time) bool {
	left := t.at.Sub(now)
	return left <= 0 || left > t.wait+longestSleep
}

func (t *task) settle(err error, now time.Time, log *slog.Logger, what string) {
	if err == nil {
		t.backoff.reset()
		return
	}
	d := t.backoff.next()
	t.plan(now.Add(d), now)
	log.Info(what+": trying again", "in", d.Round(time.Millisecond), "err", err)
}

// longestSleep bounds the time after which the clock is looked at again: a timer
// does not count the time that the machine is suspended, nor follow a clock that
// is set, and a consensus ages by the calendar.
const longestSleep = time.Minute

func (c *Client) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// checkProtocols refuses a network that requires what this program does not
// speak (tor-spec, "subprotocol versioning").
func (c *Client) checkProtocols() error {
	if c.cfg.Protocols.IsZero() {
		return nil
	}
	required, recommended := c.latest.MissingProtocols(c.cfg.Protocols)
	if required != "" {
		return fault.New(fault.Refused, "the network requires of clients what this program does not speak: %s; a newer version may", required)
	}
	if recommended != "" {
		c.log.Debug("the network recommends what this program does not speak", "protocols", recommended)
	}
	return nil
}

// offer publishes the latest directory when it is at least as useful as the
// published one: of the same consensus, or good enough, or the only one.
func (c *Client) offer() {
	cur, now := c.cur.Load(), c.now()
	if cur == nil || cur.ValidAfter().Equal(c.latest.ValidAfter()) || !c.Ready(cur, now) || c.Ready(c.latest, now) {
		c.publish(c.latest)
	}
}

func (c *Client) publish(d *netdir.Directory) {
	if d != c.cur.Load() {
		c.cur.Store(d)
		c.mu.Lock()
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
	}
	p := Progress{Phase: PhaseMicrodescs, Total: d.Len(), Done: d.Len() - len(d.MissingMicrodescs())}
	if c.Ready(d, c.now()) {
		p.Phase = PhaseDone
	}
	c.progress(p)
}

// progress reports what is new about how far the client has come. Once done,
// it does not go back.
func (c *Client) progress(p Progress) {
	if c.reported.Phase == PhaseDone && p.Phase != PhaseDone {
		return
	}
	if c.cfg.Progress != nil && (p != c.reported || p == (Progress{})) {
		c.cfg.Progress(p)
	}
	c.reported = p
}
