package find

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/log"
	"github.com/ethereum/go-ethereum/p2p/dnsdisc"
	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/chivenet/chive/devp2p"
)

// Sink takes the nodes that are found: the Add of a peers.Manager.
type Sink func(n *enode.Node, source string) error

// Trees are lists of nodes in DNS, signed by their publishers (EIP-1459).
type Trees struct {
	URLs      []string     // "enrtree://KEY@DOMAIN"
	Client    *http.Client // through Tor: it carries DNS over HTTPS
	Endpoints []string     // of DNS over HTTPS; empty: DefaultEndpoints
	OnionOnly bool         // leave out nodes without an onion
	Rate      float64      // lookups a second; zero: 3
	Log       *slog.Logger // gets no name; nil: none

	walk int64 // for tests: in place of maxWalk
}

// A walk through trees never ends, because they change. Its bounds are those of package
// dnsdisc (1,000 entries in memory) and these. Package dnsdisc remembers each name that it has not
// looked up yet, and each tree that another one links to: a tree without an end would fill the memory. So
// a walk begins anew after some lookups, and forgets.
const (
	lookupTimeout = 30 * time.Second // of one lookup through Tor
	treeRecheck   = 30 * time.Minute // of a tree's root
	treeTold      = 30 * time.Minute // between two lines in the log about what fails
	maxWalk       = 20_000           // lookups: some hours, and several times what the trees of Ethereum's networks have
)

// Run walks through the trees in random order until ctx ends, and gives what it finds to
// sink. An error is a mistake in the configuration. What fails later is tried again.
func (t Trees) Run(ctx context.Context, sink Sink) error {
	r, err := newResolver(t.Client, t.Endpoints)
	if err != nil {
		return err
	}
	if t.Log == nil {
		t.Log = slog.New(slog.DiscardHandler)
	}
	told := &trouble{log: t.Log}
	for ctx.Err() == nil {
		c := dnsdisc.NewClient(dnsdisc.Config{Timeout: lookupTimeout, RecheckInterval: treeRecheck, RateLimit: t.Rate, Resolver: r, Logger: log.NewLogger(told)})
		it, err := c.NewIterator(t.URLs...)
		if err != nil {
			return err
		}
		walk, cancel := context.WithCancel(ctx)
		r.limit(cmp.Or(t.walk, maxWalk), cancel)
		drain(walk, it, t.OnionOnly, "tree", sink)
		done := walk.Err() == nil // there is no tree
		cancel()
		if done {
			break
		}
	}
	return nil
}

// CheckTree refuses a URL that Trees would not read.
func CheckTree(text string) error {
	if _, _, err := dnsdisc.ParseURL(text); err != nil {
		return fmt.Errorf("%q is not enrtree://KEY@DOMAIN: %w", text, err)
	}
	return nil
}

// trouble passes on what package dnsdisc logs of errors, now and then: else nobody would see why a tree brings no node.
type trouble struct {
	log *slog.Logger

	mu   sync.Mutex
	last time.Time // guarded by mu
}

// Enabled implements slog.Handler.
func (t *trouble) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelDebug }

// WithAttrs implements slog.Handler.
func (t *trouble) WithAttrs([]slog.Attr) slog.Handler { return t }

// WithGroup implements slog.Handler.
func (t *trouble) WithGroup(string) slog.Handler { return t }

// names are words of an error that may name a host.
var names = regexp.MustCompile(`\S*[.:]\S*\w`)

// Handle implements slog.Handler.
func (t *trouble) Handle(_ context.Context, r slog.Record) error {
	var err error
	r.Attrs(func(a slog.Attr) bool {
		if e, ok := a.Value.Any().(error); ok {
			err = e
		}
		return err == nil
	})
	if err == nil || errors.Is(err, context.Canceled) {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.last.IsZero() && time.Since(t.last) < treeTold {
		return nil
	}
	t.last = time.Now()
	t.log.Warn("a list of nodes in DNS cannot be used", "err", names.ReplaceAllString(err.Error(), "[name]"))
	return nil
}

// drain gives an iterator's nodes to sink until ctx ends.
func drain(ctx context.Context, it enode.Iterator, onionOnly bool, source string, sink Sink) {
	stop := context.AfterFunc(ctx, it.Close)
	defer stop()
	for it.Next() {
		n := it.Node()
		if _, _, err := devp2p.OnionOf(n); err != nil && onionOnly {
			continue
		}
		_ = sink(n, source) // it says why it refuses; here nothing follows from that
	}
}
