package pool

import (
	"container/list"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// What Add refuses with.
var (
	ErrKnown = errors.New("the transaction is known already")
	ErrRoom  = errors.New("the pool has no room for the transaction")
)

// Limits bound a pool. Zero values mean the defaults.
type Limits struct {
	Count int           // transactions; default 16,384
	Bytes int           // of encoded transactions; default 32 MiB
	Age   time.Duration // after which a transaction is dropped; default 30 minutes
}

func (l Limits) filled() Limits {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&l.Count, 16384)
	set(&l.Bytes, 32<<20)
	if l.Age <= 0 {
		l.Age = 30 * time.Minute
	}
	return l
}

// A Tx is a transaction of a pool. Nobody changes it.
type Tx struct {
	Hash common.Hash
	Type byte
	// Raw is the transaction as an item of a message: of a typed one, an RLP string.
	Raw []byte
	// Size is what announcements tell of it, in bytes.
	Size uint32

	from   common.Address // the sender
	nonce  uint64
	source string
	added  time.Time
	asked  time.Time     // when Senders told of it, or it was added
	place  *list.Element // in the list of its source
}

// source is what one peer has brought to the pool, oldest first.
type source struct {
	txs   list.List
	bytes int
}

// A Pool holds transactions that were checked. It is safe for concurrent use.
type Pool struct {
	limits Limits

	mu      sync.Mutex
	txs     map[common.Hash]*Tx
	sources map[string]*source
	bytes   int
	evicted uint64
	mined   uint64
}

// New returns an empty pool.
func New(l Limits) *Pool {
	return &Pool{
		limits:  l.filled(),
		txs:     make(map[common.Hash]*Tx),
		sources: make(map[string]*source),
	}
}

// Add adds a transaction that was checked, from a source: the peer that brought it.
// raw is its item of a message. It may drop transactions of the source that fills most of
// the pool. ErrRoom says that the transaction is larger than the whole pool.
func (p *Pool) Add(tx *types.Transaction, raw []byte, src string, now time.Time) (*Tx, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hash := tx.Hash()
	if _, ok := p.txs[hash]; ok {
		return nil, ErrKnown
	}
	if len(raw) > p.limits.Bytes {
		return nil, ErrRoom
	}
	from, err := types.Sender(types.LatestSignerForChainID(tx.ChainId()), tx) // mostly known since the check
	if err != nil {
		return nil, err
	}
	for len(p.txs)+1 > p.limits.Count || p.bytes+len(raw) > p.limits.Bytes {
		p.drop(p.fullest().txs.Front().Value.(*Tx))
		p.evicted++
	}
	t := &Tx{
		Hash: hash, Type: tx.Type(), Raw: raw, Size: uint32(tx.Size()),
		from: from, nonce: tx.Nonce(), source: src, added: now, asked: now,
	}
	s := p.sources[src]
	if s == nil {
		s = new(source)
		p.sources[src] = s
	}
	t.place = s.txs.PushBack(t)
	s.bytes += len(raw)
	p.txs[hash] = t
	p.bytes += len(raw)
	return t, nil
}

// fullest returns the source that fills the largest part of the pool. The pool is not empty.
func (p *Pool) fullest() *source {
	var most *source
	part := -1.0
	for _, s := range p.sources {
		share := max(float64(s.bytes)/float64(p.limits.Bytes), float64(s.txs.Len())/float64(p.limits.Count))
		if share > part {
			most, part = s, share
		}
	}
	return most
}

func (p *Pool) drop(t *Tx) {
	delete(p.txs, t.Hash)
	p.bytes -= len(t.Raw)
	s := p.sources[t.source]
	s.txs.Remove(t.place)
	s.bytes -= len(t.Raw)
	if s.txs.Len() == 0 {
		delete(p.sources, t.source)
	}
}

// Get returns a transaction, or nil.
func (p *Pool) Get(h common.Hash) *Tx {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.txs[h]
}

// Expire drops the transactions that are older than the limit.
func (p *Pool) Expire(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sources {
		for e := s.txs.Front(); e != nil; e = s.txs.Front() {
			t := e.Value.(*Tx)
			if now.Sub(t.added) < p.limits.Age {
				break
			}
			p.drop(t)
		}
	}
}

// Remove drops transactions that were mined. Others may bring them back.
func (p *Pool) Remove(mined []common.Hash) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range mined {
		if t := p.txs[h]; t != nil {
			p.drop(t)
			p.mined++
		}
	}
}

// RemoveUsed drops the transactions whose nonces were used, by them or by others: next says for accounts which
// nonce is the first that is free.
func (p *Pool) RemoveUsed(next map[common.Address]uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.txs {
		if t.nonce < next[t.from] {
			p.drop(t)
			p.mined++
		}
	}
}

// Senders returns up to most accounts that have sent transactions of the pool. Each transaction brings its account
// once in a time, for the first time when it is that old.
func (p *Pool) Senders(most int, now time.Time, every time.Duration) []common.Address {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := make(map[common.Address]bool)
	for _, t := range p.txs {
		if now.Sub(t.asked) < every || len(seen) == most && !seen[t.from] {
			continue
		}
		t.asked = now
		seen[t.from] = true
	}
	return slices.Collect(maps.Keys(seen))
}

// Some returns up to most transactions, in no order: a new peer is told of them.
func (p *Pool) Some(most int) []*Tx {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]*Tx, 0, min(most, len(p.txs)))
	for _, t := range p.txs {
		if len(out) == most {
			break
		}
		out = append(out, t)
	}
	return out
}

// Stats is what a pool holds.
type Stats struct {
	Count   int    `json:"count"`
	Bytes   int    `json:"bytes"`
	Evicted uint64 `json:"evicted"` // dropped because the pool was full
	Mined   uint64 `json:"mined"`   // dropped because they were in a block, or their nonces were used
}

// Stats returns what the pool holds.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Count: len(p.txs), Bytes: p.bytes, Evicted: p.evicted, Mined: p.mined}
}
