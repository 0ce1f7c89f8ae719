package ethnode

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/chivenet/chive/devp2p/internal/ethnode/pool"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/rlp"
)

const (
	packSize     = 100 << 10 // bytes of transactions in one message to a peer
	maxFull      = 4 << 10   // transactions up to this size are sent without being asked for
	maxInMessage = 5000      // transactions or hashes in one message
	softAnswer   = 2 << 20   // bytes after which an answer is full
	maxLookups   = 4096      // hashes of one request that are looked up
)

var errNoBlobs = errors.New("the node relays no blobs")

// takeTransactions handles transactions that a peer sends without being asked.
func (n *Node) takeTransactions(p *peer, m p2p.Msg) error {
	if !n.allows(transactions.rule(), p) {
		n.bar(transactions.rule())
		return nil
	}
	return n.withItems(m, func(items []rlp.RawValue) error {
		for _, raw := range items {
			if !p.txs.Allow() {
				return p.flood(n, "transactions")
			}
			tx, err := decodeTx(raw)
			if err != nil {
				return malformed("transaction: %w", err)
			}
			if tx.Type() == types.BlobTxType {
				return malformed("a transaction with blobs that nobody asked for")
			}
			p.known.Add(tx.Hash())
			if err := n.admit(p, tx, raw); err != nil {
				return err
			}
			n.seen(p, tx.Hash())
		}
		return nil
	})
}

// withItems calls do with the items of a message that is one list, with its bytes counted.
func (n *Node) withItems(m p2p.Msg, do func([]rlp.RawValue) error) error {
	if err := n.parsing.Acquire(context.Background(), int64(m.Size)); err != nil {
		return err
	}
	defer n.parsing.Release(int64(m.Size))
	var list rlp.RawList[rlp.RawValue]
	if err := decode(m, &list); err != nil {
		return err
	}
	items, err := split(list.Content(), maxInMessage)
	if err != nil {
		return malformed("message %#x: %w", m.Code, err)
	}
	return do(items)
}

// split returns the items of a list's content. The items are parts of it.
func split(content []byte, most int) ([]rlp.RawValue, error) {
	count, err := rlp.CountValues(content)
	if err != nil {
		return nil, err
	}
	if count > most {
		return nil, errTooMany
	}
	items := make([]rlp.RawValue, 0, count)
	for len(content) > 0 {
		_, _, rest, err := rlp.Split(content)
		if err != nil {
			return nil, err
		}
		items = append(items, content[:len(content)-len(rest)])
		content = rest
	}
	return items, nil
}

var errTooMany = errors.New("more items than allowed")

// decodeTx decodes an item of a message.
func decodeTx(raw []byte) (*types.Transaction, error) {
	if len(raw) > pool.LargestSize+16 {
		return nil, pool.ErrSize
	}
	tx := new(types.Transaction)
	if err := rlp.DecodeBytes(raw, tx); err != nil {
		return nil, err
	}
	return tx, nil
}

// seen notes that a peer knows a transaction.
func (n *Node) seen(p *peer, h common.Hash) {
	p.known.Add(h)
	n.config.Seen(h, p.id, n.pool.Get(h) != nil)
}

// admit checks a transaction, puts it into the pool, and relays it. The error is a fault
// of the peer, if honest peers do not send such a transaction.
func (n *Node) admit(p *peer, tx *types.Transaction, raw []byte) error {
	h := tx.Hash()
	chain := n.chain.Load()
	if chain == nil || n.pool.Get(h) != nil || n.refused.Has(h) { // without a chain, nothing can be checked
		n.fetch.settled(h)
		return nil
	}
	err := n.check(chain, tx)
	if errors.Is(err, errBusyBlobs) {
		n.counts.dropped.Add(1)
		n.fetch.settled(h)
		return nil
	}
	if err := blobFault(tx, err); err != nil {
		// The hash does not cover the blobs: another peer may have the right ones.
		n.counts.refused.Add(1)
		return err
	}
	defer n.fetch.settled(h)
	if err != nil {
		n.refused.Add(h)
		n.counts.refused.Add(1)
		n.config.Score(p.id, Useless)
		n.log.Debug("a transaction fails its checks", "err", err)
		return nil
	}
	t, err := n.pool.Add(tx, append([]byte(nil), raw...), p.id.String(), time.Now())
	switch {
	case errors.Is(err, pool.ErrKnown):
		return nil
	case err != nil:
		n.refused.Add(h)
		n.counts.refused.Add(1)
		return nil
	}
	n.counts.accepted.Add(1)
	n.config.Score(p.id, Useful)
	n.relay(t)
	return nil
}

// errBusyBlobs says that the node checks no more blobs now.
var errBusyBlobs = errors.New("more blobs than the node checks")

// check checks a transaction.
func (n *Node) check(chain *Chain, tx *types.Transaction) error {
	if n.config.NoBlobs && tx.Type() == types.BlobTxType {
		return errNoBlobs
	}
	if err := n.verifies.Acquire(context.Background(), 1); err != nil {
		return err
	}
	rules := pool.Rules{Config: chain.Config, Head: n.rulesHead(), MinTip: n.config.MinTip}
	err := rules.Check(tx)
	n.verifies.Release(1) // what follows takes long, and must not hold up other transactions
	if err != nil || tx.BlobTxSidecar() == nil {
		return err
	}
	if !n.blobs.AllowN(time.Now(), len(tx.BlobHashes())) {
		return errBusyBlobs
	}
	return pool.CheckProofs(tx)
}

// relay passes a transaction of the pool on: whole to some peers, which are as many as the
// square root of all, and by its hash to the others.
func (n *Node) relay(t *pool.Tx) {
	all := n.list()
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	whole := int(math.Sqrt(float64(len(all))))
	if t.Type == types.BlobTxType || len(t.Raw) > maxFull {
		whole = 0
	}
	for _, p := range all {
		full := whole > 0 && n.allows(transactions.rule(), p)
		if !full && !n.mayLater(announced, p) || !p.known.Add(t.Hash) {
			continue
		}
		p.mu.Lock()
		if full {
			whole--
			p.full = bounded(p.full, t.Hash)
		} else {
			p.hashes = bounded(p.hashes, t.Hash)
		}
		p.mu.Unlock()
		p.kick()
	}
}

// mayLater reports whether a class may go by a peer, or it is not known yet whether it may.
func (n *Node) mayLater(class string, p *peer) bool {
	may, sure := n.may(class, p)
	return may || !sure
}

// bounded appends a hash, and drops the oldest one if there are too many.
func bounded(l []common.Hash, h common.Hash) []common.Hash {
	if len(l) >= maxGossip {
		l = l[:copy(l, l[1:])]
	}
	return append(l, h)
}

// announce queues transactions to be announced to the peer.
func (p *peer) announce(all []*pool.Tx) {
	p.mu.Lock()
	for _, t := range all {
		if p.known.Add(t.Hash) {
			p.hashes = bounded(p.hashes, t.Hash)
		}
	}
	p.mu.Unlock()
	p.kick()
}

// gossip writes to a peer what it is told without asking, until the connection ends.
func (p *peer) gossip(n *Node) {
	for {
		select {
		case <-p.done:
			return
		case <-p.wake:
		}
		for {
			code, data := p.next(n)
			if data == nil {
				break
			}
			if err := p.send(code, data); err != nil {
				p.end(err)
				return
			}
		}
	}
}

// next takes the next message of the queues.
func (p *peer) next(n *Node) (code uint64, data any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told != nil {
		r := p.told
		p.told = nil
		return eth.BlockRangeUpdateMsg, r
	}
	var txs []rlp.RawValue
	size, i := 0, 0
	for ; i < len(p.full) && size < packSize; i++ {
		if t := n.pool.Get(p.full[i]); t != nil {
			txs = append(txs, t.Raw)
			size += len(t.Raw)
		}
	}
	if p.full = p.full[i:]; len(p.full) == 0 {
		p.full = nil
	}
	if len(txs) > 0 {
		return eth.TransactionsMsg, txs
	}
	switch may, sure := n.may(announced, p); {
	case !sure:
		return 0, nil // they wait
	case !may:
		p.hashes = nil
	}
	a := new(eth.NewPooledTransactionHashesPacket71)
	for i = 0; i < len(p.hashes) && len(a.Hashes) < packSize/common.HashLength; i++ {
		if t := n.pool.Get(p.hashes[i]); t != nil {
			a.Types, a.Sizes, a.Hashes = append(a.Types, t.Type), append(a.Sizes, t.Size), append(a.Hashes, t.Hash)
		}
	}
	if p.hashes = p.hashes[i:]; len(p.hashes) == 0 {
		p.hashes = nil
	}
	if len(a.Hashes) > 0 {
		return eth.NewPooledTransactionHashesMsg, a
	}
	return 0, nil
}

// servePooled answers a request for transactions of the pool. Unknown ones are left out.
func (n *Node) servePooled(p *peer, m p2p.Msg) error {
	var q eth.GetPooledTransactionsPacket
	if err := decode(m, &q); err != nil {
		return err
	}
	if !p.requests.Allow() {
		return p.flood(n, "requests")
	}
	if !p.begin() {
		return faultf(p2p.DiscUselessPeer, Flood, "more than %d requests at the same time", maxServing)
	}
	answer := &eth.PooledTransactionsRLPPacket{RequestId: q.RequestId}
	if !n.allows(transactions.rule(), p) {
		n.bar(transactions.rule())
		q.GetPooledTransactionsRequest = nil
	}
	size := 0
	for i, h := range q.GetPooledTransactionsRequest {
		if i >= maxLookups || size >= softAnswer {
			break
		}
		if t := n.pool.Get(h); t != nil {
			p.known.Add(h)
			answer.PooledTransactionsRLPResponse = append(answer.PooledTransactionsRLPResponse, t.Raw)
			size += len(t.Raw)
		}
	}
	go func() {
		defer p.finish()
		if err := p.send(eth.PooledTransactionsMsg, answer); err != nil {
			p.end(err)
		}
	}()
	return nil
}
