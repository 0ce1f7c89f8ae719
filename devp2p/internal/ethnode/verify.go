package ethnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"
)

// maxHeader bounds a header, in bytes.
const maxHeader = 4 << 10

// roots are what a header says of its block's other parts.
type roots struct {
	parent                        common.Hash
	number                        uint64
	txs, uncles, receipts         common.Hash
	withdrawals, blockAccessLists *common.Hash
}

// A headerCache keeps the roots of headers by their hashes: what a header of that hash says
// is true, from whomever it came. The oldest is dropped first.
type headerCache struct {
	mu   sync.Mutex
	m    map[common.Hash]*roots
	ring []common.Hash
	next int
}

func newHeaderCache(size int) *headerCache {
	return &headerCache{m: make(map[common.Hash]*roots), ring: make([]common.Hash, size)}
}

func (c *headerCache) get(h common.Hash) *roots {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m[h]
}

func (c *headerCache) add(h common.Hash, r *roots) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m[h] != nil {
		return
	}
	delete(c.m, c.ring[c.next])
	c.ring[c.next], c.m[h] = h, r
	c.next = (c.next + 1) % len(c.ring)
}

// errNoHeader says that an answer cannot be checked, as its header is not to be had.
var errNoHeader = errors.New("the header for the check is not known")

// verify checks an answer against its request: by hashes where these are known. It may get
// headers from the peer for that. Items after the last one that could be checked are cut off.
func (n *Node) verify(ctx context.Context, p *peer, q *query, a *answer) error {
	var err error
	switch q.class {
	case headers:
		return n.verifyHeaders(q.headers, a.items)
	case bodies:
		err = n.match(ctx, p, q, a, bodyRoots)
	case receipts:
		err = n.match(ctx, p, q, a, receiptRoot)
	case accessLists:
		err = n.match(ctx, p, q, a, accessListRoot)
	}
	return err
}

func wrong(format string, a ...any) error {
	return faultf(p2p.DiscSubprotocolError, Wrong, format, a...)
}

// verifyHeaders checks that headers are those of the request: the hash or the number of
// the first one, the numbers of the others, and the links between neighbours.
func (n *Node) verifyHeaders(q *eth.GetBlockHeadersRequest, items []rlp.RawValue) error {
	var number uint64
	var hash, parent common.Hash // of the header before
	for i, raw := range items {
		if len(raw) > maxHeader {
			return wrong("a header of %d bytes", len(raw))
		}
		h := new(types.Header)
		if err := rlp.DecodeBytes(raw, h); err != nil {
			return malformed("header: %w", err)
		}
		if h.Number == nil || !h.Number.IsUint64() {
			return wrong("a header with the number %v", h.Number)
		}
		own := crypto.Keccak256Hash(raw)
		switch {
		case i == 0 && q.Origin.Hash != (common.Hash{}):
			if own != q.Origin.Hash {
				return wrong("the first header has another hash")
			}
		case i == 0:
			if h.Number.Uint64() != q.Origin.Number {
				return wrong("the first header has another number")
			}
		default:
			want := number + q.Skip + 1
			if q.Reverse {
				want = number - q.Skip - 1
			}
			if h.Number.Uint64() != want {
				return wrong("header %d has the number %v, and not %d", i, h.Number, want)
			}
			if q.Skip == 0 && (q.Reverse && own != parent || !q.Reverse && h.ParentHash != hash) {
				return wrong("header %d does not belong to the one before", i)
			}
		}
		number, hash, parent = h.Number.Uint64(), own, h.ParentHash
		n.headers.add(own, &roots{
			parent: h.ParentHash, number: number,
			txs: h.TxHash, uncles: h.UncleHash, receipts: h.ReceiptHash,
			withdrawals: h.WithdrawalsHash, blockAccessLists: h.BlockAccessListHash,
		})
	}
	return nil
}

// match checks the items of an answer by the hashes of the request, in order. Peers leave
// out what they do not have. rootsOf reads an item
// once, and returns what compares it with a header.
func (n *Node) match(ctx context.Context, p *peer, q *query, a *answer, rootsOf func(rlp.RawValue) (func(*roots) bool, error)) error {
	if len(a.items) == 0 {
		return nil
	}
	n.wantHeaders(ctx, p, q.hashes)
	next := 0
	for i, raw := range a.items {
		if q.class == accessLists && bytes.Equal(raw, rlp.EmptyString) {
			next++ // the peer says that it does not have this one
			continue
		}
		if q.class == receipts && (i == 0 && q.first > 0 || i == len(a.items)-1 && a.cut) {
			// A part of a block's receipts has no hash of its own. It is the whole answer, or
			// its end: nothing follows that could be out of order.
			next++
			continue
		}
		fits, err := rootsOf(raw)
		if err != nil {
			return malformed("%s: %w", q.class.name, err)
		}
		for ; ; next++ {
			if next == len(q.hashes) {
				return wrong("%s that fit no header of the request", q.class.name)
			}
			r := n.headers.get(q.hashes[next])
			if r == nil {
				a.items, a.cut = a.items[:i], false
				if i == 0 {
					return errNoHeader
				}
				return nil
			}
			if fits(r) {
				break
			}
			if q.class == accessLists {
				return wrong("an access list with another hash")
			}
		}
		next++
	}
	return nil
}

// wantHeaders gets the headers that are missing for a check, from the peer that is checked,
// or from another one if the rules want that: it cannot lie, as headers are known by their hashes. Blocks are mostly asked for in
// order, so one request for the ancestors of the last one yields most.
func (n *Node) wantHeaders(ctx context.Context, p *peer, hashes []common.Hash) {
	for range 4 {
		missing := slices.DeleteFunc(slices.Clone(hashes), func(h common.Hash) bool { return n.headers.get(h) != nil })
		if len(missing) == 0 {
			return
		}
		q := &query{class: headers, headers: &eth.GetBlockHeadersRequest{
			Origin: eth.HashOrNumber{Hash: missing[len(missing)-1]}, Amount: uint64(len(missing)), Reverse: true,
		}}
		from := p
		if !n.allows(headers.rule(), p) {
			if from = n.choose(q, &peer{}, nil); from == nil {
				return
			}
		}
		a, err := n.ask(ctx, from, q)
		if err != nil {
			return
		}
		err = n.verifyHeaders(q.headers, a.items)
		a.release()
		if err != nil {
			n.blame(from, err)
			return
		}
	}
}

// bodyRoots compares a block's body with headers.
func bodyRoots(raw rlp.RawValue) (func(*roots) bool, error) {
	var b eth.BlockBody
	if err := rlp.DecodeBytes(raw, &b); err != nil {
		return nil, err
	}
	if b.Transactions.Len()*10 > len(b.Transactions.Content()) || b.Withdrawals != nil && b.Withdrawals.Len()*25 > len(b.Withdrawals.Content()) {
		return nil, fmt.Errorf("a body with items that are too small")
	}
	uncles := types.EmptyUncleHash
	if b.Uncles.Len() > 0 {
		uncles = crypto.Keccak256Hash(b.Uncles.Bytes())
	}
	txs, err := listRoot(b.Transactions.Content(), true)
	if err != nil {
		return nil, err
	}
	var withdrawals common.Hash
	if b.Withdrawals != nil {
		if withdrawals, err = listRoot(b.Withdrawals.Content(), false); err != nil {
			return nil, err
		}
	}
	return func(r *roots) bool {
		return (b.Withdrawals == nil) == (r.withdrawals == nil) && uncles == r.uncles && txs == r.txs &&
			(r.withdrawals == nil || withdrawals == *r.withdrawals)
	}, nil
}

// receiptRoot compares a block's receipts with headers.
func receiptRoot(raw rlp.RawValue) (func(*roots) bool, error) {
	list := new(eth.ReceiptList)
	if err := rlp.DecodeBytes(raw, list); err != nil {
		return nil, err
	}
	d := list.Derivable()
	if d.Len()*5 > len(raw) {
		return nil, fmt.Errorf("receipts that are too small")
	}
	root := types.DeriveSha(d, trie.NewStackTrie(nil))
	return func(r *roots) bool { return root == r.receipts }, nil
}

// accessListRoot compares a block's access list with headers.
func accessListRoot(raw rlp.RawValue) (func(*roots) bool, error) {
	hash := crypto.Keccak256Hash(raw)
	return func(r *roots) bool { return r.blockAccessLists != nil && hash == *r.blockAccessLists }, nil
}

// listRoot returns the root of the tree that a header has of a list.
func listRoot(content []byte, txs bool) (common.Hash, error) {
	items, err := split(content, len(content))
	if err != nil {
		return common.Hash{}, err
	}
	return types.DeriveSha(rawList{items, txs}, trie.NewStackTrie(nil)), nil
}

// rawList is a list of encoded items, for types.DeriveSha.
type rawList struct {
	items []rlp.RawValue
	txs   bool // typed transactions are strings in messages; the tree has their contents
}

func (l rawList) Len() int { return len(l.items) }

func (l rawList) EncodeIndex(i int, w *bytes.Buffer) {
	raw := l.items[i]
	if l.txs {
		if kind, content, _, err := rlp.Split(raw); err == nil && kind != rlp.List {
			raw = content
		}
	}
	w.Write(raw)
}
