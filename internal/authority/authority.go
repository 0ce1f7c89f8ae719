package authority

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/dirserver"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/netdoc"
	"github.com/chivenet/chive/internal/panics"
)

// Authority is a directory authority. Run makes it work.
type Authority struct {
	cfg     Config
	log     *slog.Logger
	me      ident.RSAID // v3 identity
	began   time.Time
	list    atomic.Pointer[RelayList] // at first Accept.List
	docs    dirserver.Memory
	dir     *dirserver.Server
	out     sync.WaitGroup // goroutines that send to other authorities
	grumble *grumble
	// memory counts what others make the authority hold.
	memory *account.Memory

	use      use
	channels atomic.Pointer[channel.Manager] // of the ORPort; nil: there is none yet

	speaker netdir.Speaker
	refused chan error // why the network refuses this program, which ends Run

	mu sync.Mutex // guards what follows
	// relays
	relays    roster
	listed    listing // the relays of the consensus published last
	tests     tests
	uploaders uploaders
	pins      pins
	maxPins   int
	histories histories
	news      chan struct{} // closed and replaced when a relay is added, or a test ends
	// voting
	certs   map[netdoc.KeyPair]*netdoc.AuthCert
	current *netdoc.Consensus // the ns consensus published last, without its relays
	round   *round
	last    map[ident.RSAID]*oldVote // the previous round's votes, which are still served
	// measured is the bandwidth file that the last vote used; nil: none.
	measured *dirserver.Doc
	sr       sharedRandom
	advice   netdir.Advice
}

// New makes an authority and loads its state. It does nothing before Run.
func New(cfg Config) (*Authority, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	a := &Authority{
		cfg: cfg, log: cfg.Log, me: cfg.Keys.Cert.Identity, began: cfg.Now(), relays: newRoster(), news: make(chan struct{}),
		certs: map[netdoc.KeyPair]*netdoc.AuthCert{}, uploaders: uploaders{}, maxPins: maxPins,
		memory: account.New(cfg.MaxMemory), grumble: newGrumble(cfg.Log, cfg.Now),
		speaker: netdir.ThisProgram(true), refused: make(chan error, 1),
	}
	a.list.Store(cfg.Accept.List)
	a.histories.Started = cfg.Now()
	a.dir = dirserver.New(dirserver.Config{
		Docs: &a.docs, Extra: a.extra, Now: cfg.Now, Log: cfg.Log, MaxUpload: uploadLimit, Memory: a.memory, Authorities: cfg.Network.AuthorityAddrs(),
	})
	a.addCertLocked(cfg.Keys.Cert)
	if err := a.load(); err != nil {
		return nil, err
	}
	a.keepConsensuses()
	return a, nil
}

// SetRelayList replaces the list of relays that are rejected or marked. It
// applies to new descriptors, and to the next vote.
func (a *Authority) SetRelayList(l *RelayList) { a.list.Store(l) }

// SetMaxMemory changes how many bytes others can make the authority hold.
func (a *Authority) SetMaxMemory(bound int64) { a.memory.SetBound(bound) }

// Run votes, serves and tests relays until ctx ends. It returns an error only
// when it cannot continue.
func (a *Authority) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer a.out.Wait()
	defer wg.Wait()
	defer cancel()
	rest := func() bool { // after a panic
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Second):
			return true
		}
	}
	errs := make(chan error, 5)
	part := func(f func(context.Context) error) {
		wg.Go(panics.Keep(a.log, rest, func() {
			if err := f(ctx); err != nil {
				errs <- err
			}
		}))
	}
	if l := a.cfg.DirListener; l != nil {
		part(func(ctx context.Context) error { return a.dir.Serve(ctx, l) })
	}
	if l := a.cfg.ORListener; l != nil {
		or, err := newORPort(a)
		if err != nil {
			return err
		}
		part(func(ctx context.Context) error { return or.serve(ctx, l) })
	}
	if !a.cfg.Accept.AssumeReachable {
		part(a.testReachability)
	}
	part(func(ctx context.Context) error {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		a.memory.Run(ctx, tick.C, account.Seldom(a.cfg.Now, 10*time.Second, func(holders int, bytes int64) {
			a.log.Warn("others made the authority hold too much memory: those that were idle or held the most were closed", "bound", a.memory.Bound(), "closed", holders, "freed", bytes)
		}))
		return nil
	})
	part(a.vote)
	select {
	case <-ctx.Done():
		return a.saveHistories()
	case err := <-a.refused:
		return errors.Join(err, a.saveHistories())
	case err := <-errs:
		return err
	}
}

// Relays returns the number of relays whose descriptors the authority has.
func (a *Authority) Relays() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.relays.byRSA)
}

// Consensus returns the text of the published consensus of a flavor, or nil.
func (a *Authority) Consensus(f netdoc.Flavor) []byte {
	c := a.docs.Consensus(f)
	if c == nil {
		return nil
	}
	return c.Doc.Bytes()
}

// noteChangeLocked wakes the goroutines that wait for new relays or results of tests. The
// caller holds mu.
func (a *Authority) noteChangeLocked() {
	close(a.news)
	a.news = make(chan struct{})
}

// addCertLocked keeps a certificate of a known authority.
func (a *Authority) addCertLocked(c *netdoc.AuthCert) {
	old := a.certs[c.KeyPair()]
	if _, known := a.cfg.find(c.Identity); !known || !c.Replaces(old) {
		return
	}
	var of []*netdoc.AuthCert
	for _, o := range a.certs {
		if o.Identity == c.Identity && o != old {
			of = append(of, o)
		}
	}
	if len(of) >= maxCertsEach {
		oldest := slices.MinFunc(of, func(x, y *netdoc.AuthCert) int { return x.Expires.Compare(y.Expires) })
		delete(a.certs, oldest.KeyPair())
	}
	a.certs[c.KeyPair()] = c
	var all []*netdoc.AuthCert
	for _, o := range a.certs {
		all = append(all, o)
	}
	slices.SortFunc(all, func(x, y *netdoc.AuthCert) int { return slices.Compare(x.Identity[:], y.Identity[:]) })
	a.docs.SetCerts(all)
}

// maxCertsEach bounds the certificates of one authority.
const maxCertsEach = 8

// certLocked returns a certificate, for netdoc.Consensus.Verify. The caller holds
// mu.
func (a *Authority) certLocked(k netdoc.KeyPair) *netdoc.AuthCert { return a.certs[k] }

// clockInterval is how often a wait looks at the clock: a timer stops when the
// machine is suspended, and does not follow a clock that is set.
const clockInterval = time.Second

// setBack is how far the clock must be set back before the authority plans a new
// round.
const setBack = time.Minute

// waitUntil waits for a time of the wall clock. It returns false if ctx ends
// first, or if the clock is set back so far that t is no longer the time of the
// next round.
func (a *Authority) waitUntil(ctx context.Context, t time.Time) bool {
	return a.waitUntilOr(ctx, t, func() (bool, <-chan struct{}) { return false, nil })
}

// waitUntilOr is waitUntil, but ends also when over reports true, which it is asked at first and when
// the channel is closed.
func (a *Authority) waitUntilOr(ctx context.Context, t time.Time, over func() (bool, <-chan struct{})) bool {
	for least := time.Duration(math.MaxInt64 - setBack); ctx.Err() == nil; {
		left := t.Sub(a.cfg.Now().Round(0)) // by the wall clock
		yes, changed := over()
		if left <= 0 || yes {
			return true
		}
		if left > least+setBack {
			return false
		}
		least = min(least, left)
		timer := time.NewTimer(min(left, clockInterval))
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
	return false
}

// errUnknownAuthority reports a document that no authority of the network has
// made.
var errUnknownAuthority = fault.New(fault.Refused, "it is not from a recognized v3 authority")
