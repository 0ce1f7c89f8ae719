package ethnode

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/rlp"
)

const (
	maxAgreers  = 5               // peers that are asked for the newest headers
	agreeBack   = 3               // headers before the newest one that are agreed on, too
	agreeAmount = 128             // headers that a peer is asked for: it tells of a new range each 32 blocks
	agreeFresh  = 2 * time.Second // for which what peers agreed on counts as new
)

// agreement is what peers agreed on last.
type agreement struct {
	turn chan struct{} // held by the one who asks; capacity 1

	mu      sync.Mutex
	headers []*types.Header // guarded by mu: newest first
	peers   int             // guarded by mu: that were asked
	at      time.Time       // guarded by mu
}

// last returns what peers agreed on, if that is new.
func (a *agreement) last() ([]*types.Header, int, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.headers, a.peers, a.headers != nil && time.Since(a.at) < agreeFresh
}

// base returns the number of a block that was agreed on before.
func (a *agreement) base() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.headers == nil {
		return 0
	}
	return a.headers[len(a.headers)-1].Number.Uint64()
}

// newest returns the newest header that is known: the one that peers told, or a later one on
// which they agreed. nil: none.
func (n *Node) newest() *types.Header {
	var best *types.Header
	if h := n.head.Load(); h != nil {
		best = h.header
	}
	n.agreed.mu.Lock()
	defer n.agreed.mu.Unlock()
	if a := n.agreed.headers; a != nil && (best == nil || a[0].Number.Cmp(best.Number) > 0) {
		best = a[0]
	}
	return best
}

// What Agreed fails with.
var (
	errNoHead = errors.New("no peer has told of a block yet")
	errSplit  = errors.New("the peers do not agree on the newest block")
)

// Agreed asks some peers at random for their newest headers. It returns the newest header that
// more than half of those have that answered, and up to three before it, newest first, and how many
// peers answered. Peers tell of new blocks only each 32 blocks; this is why they are asked. As long
// as most of the asked peers are honest, it is a header of the chain; if one peer is there, it is
// the word of that peer.
func (n *Node) Agreed(ctx context.Context) ([]*types.Header, int, error) {
	select {
	case n.agreed.turn <- struct{}{}:
		defer func() { <-n.agreed.turn }()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	if headers, peers, ok := n.agreed.last(); ok {
		return headers, peers, nil
	}
	h := n.head.Load()
	if h == nil {
		return nil, 0, errNoHead
	}
	all := n.witnesses()
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:min(len(all), maxAgreers)]
	told := h.header.Number.Uint64()
	from := max(told, n.agreed.base())
	got := n.newestOf(ctx, all, from)
	headers := majority(got)
	if len(got) > 0 && headers == nil && from > told {
		// Those before may have agreed on a block that never was, with a number that no block will have
		// for years: the first peer of a node is alone.
		got = n.newestOf(ctx, all, told)
		headers = majority(got)
	}
	if len(got) == 0 {
		return nil, 0, errors.New("no peer answered with its newest block")
	}
	if headers == nil {
		return nil, len(got), errSplit
	}
	n.agreed.mu.Lock()
	defer n.agreed.mu.Unlock()
	n.agreed.headers, n.agreed.peers, n.agreed.at = headers, len(got), time.Now()
	return headers, len(got), nil
}

// newestOf asks peers for their headers from some blocks before a number on, and returns the answers.
func (n *Node) newestOf(ctx context.Context, all []*peer, from uint64) (got [][]*types.Header) {
	from -= min(from, agreeBack)
	answers := make(chan []*types.Header, len(all))
	for _, p := range all {
		go func() { answers <- n.headersFrom(ctx, p, from) }() // ask ends after answerTime
	}
	for range all {
		if a := <-answers; a != nil {
			got = append(got, a)
		}
	}
	return got
}

// headersFrom gets a peer's headers from a number on, oldest first; nil: it did not answer.
func (n *Node) headersFrom(ctx context.Context, p *peer, from uint64) []*types.Header {
	q := &query{class: headers, headers: &eth.GetBlockHeadersRequest{Origin: eth.HashOrNumber{Number: from}, Amount: agreeAmount}}
	a, err := n.ask(ctx, p, q)
	if err != nil {
		return nil
	}
	defer a.release()
	if err := n.verify(ctx, p, q, a); err != nil {
		n.blame(p, err)
		return nil
	}
	all := []*types.Header{}
	for _, raw := range a.items {
		h := new(types.Header)
		if err := rlp.DecodeBytes(raw, h); err != nil {
			return nil // verify has decoded it
		}
		all = append(all, h)
	}
	return all
}

// majority returns the newest header that more than half of the answers have, and those before it
// in the same answer, newest first. Each answer is a row of headers that belong to each other.
func majority(answers [][]*types.Header) []*types.Header {
	count := make(map[common.Hash]int)
	var best []*types.Header // an answer, up to the newest header that counts
	for _, a := range answers {
		for i, h := range a {
			hash := h.Hash()
			count[hash]++
			if 2*count[hash] > len(answers) && (best == nil || h.Number.Cmp(best[len(best)-1].Number) > 0) {
				best = a[:i+1]
			}
		}
	}
	var out []*types.Header
	for i := len(best) - 1; i >= 0 && len(out) <= agreeBack; i-- {
		out = append(out, best[i])
	}
	return out
}
