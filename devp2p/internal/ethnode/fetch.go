package ethnode

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/chivenet/chive/devp2p/internal/ethnode/pool"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/txpool"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p"
)

const (
	maxWanted    = 32768     // transactions that are announced, and not here yet
	maxOffers    = 4         // peers that are remembered for one of them
	maxPeerOffer = 4096      // of one peer
	maxBatch     = 256       // transactions of one request
	batchSize    = 128 << 10 // announced bytes of one request, after which it is full
	sizeSlack    = 8         // bytes by which an announced size may differ
)

// An offer is an announcement of one transaction by one peer.
type offer struct {
	peer *peer
	kind byte
	size uint32
}

// A wanted transaction was announced, and is asked from one announcer at a time.
type wanted struct {
	offers []offer
	asked  *peer
}

// A fetcher gets announced transactions from the peers that announced them.
type fetcher struct {
	node *Node

	mu    sync.Mutex
	txs   map[common.Hash]*wanted
	queue map[*peer]*todo
}

// todo is what one peer offers.
type todo struct {
	hashes []common.Hash
	busy   bool // a request to the peer is under way
}

func newFetcher(n *Node) *fetcher {
	return &fetcher{node: n, txs: make(map[common.Hash]*wanted), queue: make(map[*peer]*todo)}
}

// takeAnnouncement handles hashes of transactions that a peer has.
func (n *Node) takeAnnouncement(p *peer, m p2p.Msg) error {
	if !n.allows(announced, p) {
		n.bar(announced)
		return nil
	}
	if err := n.parsing.Acquire(context.Background(), int64(m.Size)); err != nil {
		return err
	}
	defer n.parsing.Release(int64(m.Size))
	a := new(eth.NewPooledTransactionHashesPacket71)
	if err := decode(m, a); err != nil {
		return err
	}
	if len(a.Hashes) != len(a.Types) || len(a.Hashes) != len(a.Sizes) {
		return malformed("an announcement of %d hashes, %d types, %d sizes", len(a.Hashes), len(a.Types), len(a.Sizes))
	}
	for i, h := range a.Hashes {
		if !p.announces.Allow() {
			n.fetch.kick(p)
			return p.flood(n, "announcements")
		}
		n.seen(p, h)
		if !n.allows(transactions.rule(), p) { // another peer may send it
			continue
		}
		if a.Types[i] > types.SetCodeTxType || a.Sizes[i] > pool.LargestSize || n.pool.Get(h) != nil || n.refused.Has(h) {
			continue
		}
		if a.Types[i] == types.BlobTxType && (n.config.NoBlobs || !p.blobs.Allow()) {
			continue
		}
		n.fetch.offer(h, offer{p, a.Types[i], a.Sizes[i]})
	}
	n.fetch.kick(p)
	return nil
}

// offer notes that a peer has a transaction.
func (f *fetcher) offer(h common.Hash, o offer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queue[o.peer]
	if q == nil {
		q = new(todo)
		f.queue[o.peer] = q
	}
	if len(q.hashes) >= maxPeerOffer {
		return
	}
	w := f.txs[h]
	if w == nil {
		if len(f.txs) >= maxWanted {
			return
		}
		w = new(wanted)
		f.txs[h] = w
	}
	if len(w.offers) >= maxOffers || slices.ContainsFunc(w.offers, func(x offer) bool { return x.peer == o.peer }) {
		return
	}
	w.offers = append(w.offers, o)
	q.hashes = append(q.hashes, h)
}

// settled forgets a transaction that is here, or that nobody wants any more.
func (f *fetcher) settled(h common.Hash) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.txs, h)
}

// kick asks a peer for what it offers, unless a request to it is under way.
func (f *fetcher) kick(p *peer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queue[p]
	if q == nil || q.busy {
		return
	}
	batch := make(map[common.Hash]offer)
	var hashes []common.Hash
	rest, size := q.hashes[:0], 0
	for _, h := range q.hashes {
		w := f.txs[h]
		if w == nil {
			continue
		}
		i := slices.IndexFunc(w.offers, func(o offer) bool { return o.peer == p })
		if i < 0 {
			continue
		}
		if w.asked != nil || len(batch) >= maxBatch || (size > 0 && size+int(w.offers[i].size) > batchSize) {
			rest = append(rest, h)
			continue
		}
		w.asked = p
		batch[h] = w.offers[i]
		hashes = append(hashes, h)
		size += int(w.offers[i].size)
	}
	if q.hashes = rest; len(rest) == 0 {
		q.hashes = nil
	}
	if len(batch) == 0 {
		return
	}
	q.busy = true
	go f.run(p, hashes, batch)
}

// run makes one request.
func (f *fetcher) run(p *peer, hashes []common.Hash, batch map[common.Hash]offer) {
	err := f.request(p, hashes, batch)
	f.mu.Lock()
	again := map[*peer]bool{p: true}
	if q := f.queue[p]; q != nil {
		q.busy = false
	}
	for h := range batch { // what did not come is asked from the next announcer
		w := f.txs[h]
		if w == nil || w.asked != p {
			continue
		}
		w.asked = nil
		w.offers = slices.DeleteFunc(w.offers, func(o offer) bool { return o.peer == p })
		for _, o := range w.offers {
			again[o.peer] = true
		}
		if len(w.offers) == 0 {
			delete(f.txs, h)
		}
	}
	f.mu.Unlock()
	if err != nil {
		f.node.blame(p, err)
	}
	for p := range again {
		f.kick(p)
	}
}

// request asks a peer for transactions, and admits those that come.
func (f *fetcher) request(p *peer, hashes []common.Hash, batch map[common.Hash]offer) error {
	n := f.node
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	a, err := n.ask(ctx, p, &query{class: transactions, hashes: hashes})
	if err != nil {
		return err
	}
	defer a.release()
	came := make(map[common.Hash]bool, len(a.items))
	for _, raw := range a.items {
		tx, err := decodeTx(raw)
		if err != nil {
			return malformed("transaction: %w", err)
		}
		o, ok := batch[tx.Hash()]
		if !ok || came[tx.Hash()] {
			return faultf(p2p.DiscSubprotocolError, Wrong, "a transaction that was not asked for")
		}
		if d := int64(tx.Size()) - int64(o.size); tx.Type() != o.kind || d > sizeSlack || d < -sizeSlack {
			return faultf(p2p.DiscSubprotocolError, Wrong, "a transaction of type %d and %d bytes, announced as type %d and %d bytes", tx.Type(), tx.Size(), o.kind, o.size)
		}
		came[tx.Hash()] = true
		if !p.txs.Allow() {
			n.fetch.settled(tx.Hash())
			if err := p.flood(n, "transactions"); err != nil {
				return err
			}
			continue
		}
		if err := n.admit(p, tx, raw); err != nil {
			return err
		}
		n.seen(p, tx.Hash())
	}
	return nil
}

// left forgets a peer.
func (f *fetcher) left(p *peer) {
	f.mu.Lock()
	q := f.queue[p]
	delete(f.queue, p)
	if q == nil {
		f.mu.Unlock()
		return
	}
	for _, h := range q.hashes {
		if w := f.txs[h]; w != nil && w.asked != p {
			if w.offers = slices.DeleteFunc(w.offers, func(o offer) bool { return o.peer == p }); len(w.offers) == 0 {
				delete(f.txs, h)
			}
		}
	}
	f.mu.Unlock()
}

// blobFault returns the fault of a peer that sends blobs which do not fit their
// transaction. Other checks may fail for honest peers, too: they know another newest block.
func blobFault(tx *types.Transaction, err error) error {
	if err == nil || tx.Type() != types.BlobTxType || errors.Is(err, errNoBlobs) {
		return nil
	}
	sidecar := tx.BlobTxSidecar()
	if sidecar == nil || errors.Is(err, txpool.ErrKZGVerificationError) || sidecar.ValidateBlobCommitmentHashes(tx.BlobHashes()) != nil {
		return faultf(p2p.DiscSubprotocolError, Wrong, "blobs: %w", err)
	}
	return nil
}
