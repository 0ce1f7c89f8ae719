package find

import (
	"context"
	"log/slog"
	"net/http"
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
}

// A walk through trees never ends, because they change. Its bounds are those of package
// dnsdisc (1,000 entries in memory) and these.
const (
	lookupTimeout = 30 * time.Second // of one lookup through Tor
	treeRecheck   = 30 * time.Minute // of a tree's root
)

// Run walks through the trees in random order until ctx ends, and gives what it finds to
// sink. An error is a mistake in the configuration. What fails later is tried again.
func (t Trees) Run(ctx context.Context, sink Sink) error {
	r, err := newResolver(t.Client, t.Endpoints)
	if err != nil {
		return err
	}
	c := dnsdisc.NewClient(dnsdisc.Config{Timeout: lookupTimeout, RecheckInterval: treeRecheck, RateLimit: t.Rate, Resolver: r,
		Logger: log.NewLogger(slog.DiscardHandler)})
	it, err := c.NewIterator(t.URLs...)
	if err != nil {
		return err
	}
	drain(ctx, it, t.OnionOnly, "tree", sink)
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
