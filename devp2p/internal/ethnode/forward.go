package ethnode

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/rlp"
)

const (
	answerTime  = 10 * time.Second // for one peer's answer
	forwardTime = 25 * time.Second // for an answer at all, from the peers that are tried
	maxTries    = 3                // peers that one request is passed on to
	maxItems    = 1024             // headers, bodies, ... of one request
)

// A class is a kind of request. Peers are measured and chosen for each class.
type class struct {
	name        string
	ask, answer uint64 // codes of the messages
	since       uint   // the first version with these
	bulk        bool   // the answers are large: throughput counts more than latency
	parse       func(p2p.Msg, uint) (id uint64, q *query, err error)
}

var (
	transactions = &class{name: "transactions", ask: eth.GetPooledTransactionsMsg, answer: eth.PooledTransactionsMsg, since: eth.ETH69}
	headers      = &class{name: "headers", ask: eth.GetBlockHeadersMsg, answer: eth.BlockHeadersMsg, since: eth.ETH69, parse: parseHeaders}
	bodies       = &class{name: "bodies", ask: eth.GetBlockBodiesMsg, answer: eth.BlockBodiesMsg, since: eth.ETH69, bulk: true, parse: parseHashes}
	receipts     = &class{name: "receipts", ask: eth.GetReceiptsMsg, answer: eth.ReceiptsMsg, since: eth.ETH69, bulk: true, parse: parseReceipts}
	accessLists  = &class{name: "access lists", ask: eth.GetBlockAccessListsMsg, answer: eth.BlockAccessListsMsg, since: eth.ETH71, bulk: true, parse: parseHashes}
)

// classes are all classes. Their order is that of measured.
var classes = [...]*class{transactions, headers, bodies, receipts, accessLists}

// A query is what a request asks for.
type query struct {
	class   *class
	headers *eth.GetBlockHeadersRequest
	hashes  []common.Hash
	first   uint64 // the first receipt of the first block (eth/70)
}

// amount is the largest number of items that may answer the query.
func (q *query) amount() int {
	if q.headers != nil {
		return int(min(q.headers.Amount, maxItems))
	}
	return len(q.hashes)
}

// message returns the request as a message of a version.
func (q *query) message(id uint64, version uint) any {
	switch {
	case q.headers != nil:
		return &eth.GetBlockHeadersPacket{RequestId: id, GetBlockHeadersRequest: q.headers}
	case q.class == receipts && version >= eth.ETH70:
		return &eth.GetReceiptsPacket70{RequestId: id, FirstBlockReceiptIndex: q.first, GetReceiptsRequest: q.hashes}
	}
	return &eth.GetBlockBodiesPacket{RequestId: id, GetBlockBodiesRequest: q.hashes} // an ID and hashes, as all others
}

func parseHeaders(m p2p.Msg, _ uint) (uint64, *query, error) {
	var r eth.GetBlockHeadersPacket
	if err := decode(m, &r); err != nil {
		return 0, nil, err
	}
	r.Amount = min(r.Amount, maxItems)
	return r.RequestId, &query{headers: r.GetBlockHeadersRequest}, nil
}

func parseHashes(m p2p.Msg, _ uint) (uint64, *query, error) {
	var r eth.GetBlockBodiesPacket
	if err := decode(m, &r); err != nil {
		return 0, nil, err
	}
	return r.RequestId, &query{hashes: r.GetBlockBodiesRequest[:min(len(r.GetBlockBodiesRequest), maxItems)]}, nil
}

func parseReceipts(m p2p.Msg, version uint) (uint64, *query, error) {
	if version < eth.ETH70 {
		return parseHashes(m, version)
	}
	var r eth.GetReceiptsPacket70
	if err := decode(m, &r); err != nil {
		return 0, nil, err
	}
	return r.RequestId, &query{hashes: r.GetReceiptsRequest[:min(len(r.GetReceiptsRequest), maxItems)], first: r.FirstBlockReceiptIndex}, nil
}

// takeRequest passes a peer's request on, in a goroutine of its own.
func (n *Node) takeRequest(p *peer, m p2p.Msg, c *class) error {
	id, q, err := c.parse(m, p.version)
	if err != nil {
		return err
	}
	q.class = c
	if !p.requests.Allow() {
		return p.flood(n, "requests")
	}
	if !p.begin() {
		return faultf(p2p.DiscUselessPeer, Flood, "more than %d requests at the same time", maxServing)
	}
	go func() {
		defer p.finish()
		if !n.allows(c.rule(), p) {
			n.bar(c.rule())
			q = &query{class: c} // the protocol has no other way to say no than an empty answer
		}
		a := n.forward(p, q)
		defer a.release()
		if err := p.send(c.answer, a.message(id, c, p.version)); err != nil {
			p.end(err)
		}
	}()
	return nil
}

// forward gets the answer of a peer's request from other peers. The answer is empty if no
// peer has one: the protocol has no other way to say so.
func (n *Node) forward(from *peer, q *query) *answer {
	empty := &answer{release: func() {}}
	if q.amount() == 0 {
		return empty
	}
	if a := n.genesisAnswer(q); a != nil {
		return a
	}
	if a := n.get(context.Background(), from, q); a != nil {
		n.counts.forwarded(q.class)
		return a
	}
	n.counts.unanswered(q.class)
	return empty
}

// get asks some peers for an answer that is not empty, and checks it. nil: no peer has one.
// The caller releases it.
func (n *Node) get(ctx context.Context, from *peer, q *query) *answer {
	ctx, cancel := context.WithTimeout(ctx, forwardTime)
	defer cancel()
	tried := map[*peer]bool{from: true}
	for range maxTries {
		p := n.choose(q, from, tried)
		if p == nil {
			break
		}
		tried[p] = true
		a, err := n.ask(ctx, p, q)
		if err != nil {
			if ctx.Err() != nil || closed(from.done) {
				break
			}
			continue
		}
		if err := n.verify(ctx, p, q, a); err != nil {
			a.release()
			n.blame(p, err)
			continue
		}
		if a.fit(from.version); len(a.items) == 0 {
			a.release()
			n.config.Score(p.id, Useless)
			continue
		}
		n.config.Score(p.id, Useful)
		return a
	}
	return nil
}

// genesisAnswer answers the one request that the node knows itself: for the first block's
// header.
func (n *Node) genesisAnswer(q *query) *answer {
	c := n.chain.Load()
	if q.headers == nil || c == nil || c.learnt() {
		return nil
	}
	o := q.headers.Origin
	if o.Hash != c.Genesis && (o.Number != 0 || o.Hash != (common.Hash{})) || q.headers.Amount != 1 && !q.headers.Reverse {
		return nil
	}
	raw, err := rlp.EncodeToBytes(c.block.Header())
	if err != nil {
		return nil // it is asked from peers then
	}
	return &answer{items: []rlp.RawValue{raw}, release: func() {}}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// What ask fails with, besides faults.
var (
	errBusy    = errors.New("the peer has too many requests to answer")
	errGone    = errors.New("the peer has left")
	errBarred  = errors.New("the rules do not allow this class by this peer")
	errTimeout = errors.New("the peer did not answer in time")
)

// pending is a request that waits for its answer.
type pending struct {
	query *query
	reply chan *answer // capacity 1
}

// ask sends a request to a peer, and waits for its answer. The caller releases the answer.
func (n *Node) ask(ctx context.Context, p *peer, q *query) (*answer, error) {
	if !n.allows(q.class.rule(), p) {
		n.bar(q.class.rule())
		return nil, errBarred
	}
	if p.version < q.class.since {
		return nil, fmt.Errorf("%s need eth/%d", q.class.name, q.class.since)
	}
	w := &pending{q, make(chan *answer, 1)}
	p.mu.Lock()
	if len(p.asked) >= maxAsked {
		p.mu.Unlock()
		return nil, errBusy
	}
	id := rand.Uint64()
	for p.asked[id] != nil {
		id = rand.Uint64()
	}
	p.asked[id] = w
	p.mu.Unlock()
	begun := time.Now()
	sent := make(chan error, 1) // a peer that does not read must not keep us beyond the time
	go func() { sent <- p.send(q.class.ask, q.message(id, p.version)) }()
	timer := time.NewTimer(answerTime)
	defer timer.Stop()
	for {
		select {
		case err := <-sent:
			if err != nil {
				p.forget(id, w)
				return nil, err
			}
			sent = nil
		case a := <-w.reply:
			took := time.Since(begun)
			p.measured.note(q.class, took, a.size)
			if a.size < bulkBytes {
				n.config.RTT(p.id, n.route(p).Onion, took)
			}
			return a, nil
		case <-p.done:
			p.forget(id, w)
			return nil, errGone
		case <-ctx.Done():
			p.forget(id, w)
			return nil, ctx.Err()
		case <-timer.C:
			p.forget(id, w)
			p.measured.note(q.class, answerTime, 0)
			n.config.Score(p.id, Slow)
			return nil, errTimeout
		}
	}
}

// forget gives a request up. Its answer may still come, and is dropped then.
func (p *peer) forget(id uint64, w *pending) {
	p.mu.Lock()
	if p.asked[id] == w {
		delete(p.asked, id)
		p.late[p.nlate%len(p.late)] = id
		p.nlate++
	}
	p.mu.Unlock()
	select {
	case a := <-w.reply:
		a.release()
	default:
	}
}
