package broadcast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/p2p/enode"
)

// What the queue holds at most.
const (
	MaxTransactions = 256
	MaxBytes        = 16 << 20
	maxDone         = 64 // transactions that are done and still shown
	maxAtOnce       = 4  // deliveries at the same time
	maxAgain        = 2  // of these, of transactions that a peer may have got already: new ones never wait for them
)

// Times between deliveries. Each is random between the two bounds, so that they do not tell
// when the user sent the transaction.
var (
	firstWait = [2]time.Duration{0, 3 * time.Second}
	againWait = [2]time.Duration{20 * time.Second, 90 * time.Second} // until it is sent to one more peer
	heldWait  = [2]time.Duration{5 * time.Second, 20 * time.Second}  // until peers are looked for again
	startWait = [2]time.Duration{15 * time.Second, 60 * time.Second} // after a start: many things begin then
	failWait  = [2]time.Duration{3 * time.Second, 15 * time.Second}  // after a connection failed, for the first times
	keepTime  = 24 * time.Hour                                       // then it is given up
	limitTime = 3 * time.Minute                                      // for one delivery
)

// quickTries is after how many tries failures are waited for as long as everything else.
const quickTries = 3

// What Submit refuses with.
var (
	ErrFull  = errors.New("broadcast: too many transactions wait to be sent")
	ErrKnown = errors.New("broadcast: the transaction is queued already")
)

// A State says where a transaction is.
type State string

// The states.
const (
	Held    State = "held"    // no onion peer is there; it has left this machine in no way
	Waiting State = "waiting" // for its random time, or for being seen back
	Sending State = "sending"
	Seen    State = "seen"     // another peer has told of it: done
	Taken   State = "accepted" // all onion peers that are known have it in their pools: done
	Mined   State = "mined"    // it is in a block on which peers agree: done
	Used    State = "used"     // a block on which peers agree used its nonce, by it or by another transaction: done
	Expired State = "expired"  // it was not seen back within a day: done
)

func (s State) done() bool { return s == Seen || s == Taken || s == Mined || s == Used || s == Expired }

// A Delivery is the outcome of one connection.
type Delivery struct {
	Sent, Accepted bool
}

// A Config is what a Queue needs.
type Config struct {
	// Targets returns the nodes that have onions, and why there is none.
	Targets func() ([]*enode.Node, string)
	// Deliver makes the connection for one transaction. It must not use anything but the
	// onion of the node.
	Deliver func(context.Context, *enode.Node, *types.Transaction) (Delivery, error)
	// Dir keeps the transactions that are not done, so that a restart forgets none. Empty:
	// they are in memory only.
	Dir string
	Log *slog.Logger
}

// entry is one transaction.
type entry struct {
	tx      *types.Transaction
	from    common.Address // the sender
	raw     []byte
	added   time.Time
	state   State
	why     string
	next    time.Time
	targets map[enode.ID]bool // those it was or is being sent to; true: their pools have it
	sent    int               // deliveries that succeeded
	tries   int               // deliveries that began since the start
	mined   State             // what one peer alone says: Mined or Used; empty: nothing
	told    string            // how a peer told of it that did not get it from here; empty: none did
}

// retry returns how long to wait after a delivery that did not succeed.
func (e *entry) retry() time.Duration {
	if e.tries > quickTries {
		return between(againWait)
	}
	return between(failWait)
}

// A Queue holds transactions until they are seen back.
type Queue struct {
	config Config
	log    *slog.Logger

	mu    sync.Mutex
	txs   map[common.Hash]*entry
	order []common.Hash // oldest first
	bytes int
	busy  int // deliveries under way
	again int // of these, of transactions that were tried before
	wake  chan struct{}

	saving  sync.Mutex // orders writes of the file
	written string     // its content
}

// New returns a queue, with the transactions that the directory keeps.
func New(c Config) (*Queue, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	q := &Queue{config: c, log: c.Log, txs: make(map[common.Hash]*entry), wake: make(chan struct{}, 1)}
	if err := q.load(); err != nil {
		return nil, err
	}
	return q, nil
}

func between(b [2]time.Duration) time.Duration {
	return b[0] + time.Duration(rand.Int64N(int64(b[1]-b[0])+1))
}

// Submit takes a transaction that was checked. It returns its state: Held, with the reason
// in words, if no onion peer is there.
func (q *Queue) Submit(tx *types.Transaction) (State, string, error) {
	raw, err := tx.MarshalBinary()
	if err != nil {
		return "", "", fmt.Errorf("broadcast: %w", err)
	}
	from, err := sender(tx)
	if err != nil {
		return "", "", fmt.Errorf("broadcast: %w", err)
	}
	targets, why := q.config.Targets()
	q.mu.Lock()
	e := q.txs[tx.Hash()]
	if e != nil && !e.state.done() {
		defer q.mu.Unlock()
		return e.state, e.why, ErrKnown
	}
	if e == nil && !q.room(len(raw)) {
		q.mu.Unlock()
		return "", "", ErrFull
	}
	now := time.Now()
	if e != nil {
		q.remove(tx.Hash())
	}
	e = &entry{tx: tx, from: from, raw: raw, added: now, state: Waiting, next: now.Add(between(firstWait)), targets: make(map[enode.ID]bool)}
	if len(targets) == 0 {
		e.state, e.why = Held, why
	}
	q.put(e)
	state, why := e.state, e.why
	q.mu.Unlock()
	q.kick()
	if err := q.save(); err != nil {
		q.log.Warn("cannot keep a transaction that waits", "err", err)
		why = strings.TrimPrefix(why+"; it cannot be written to the disk, and a restart forgets it", "; ")
	}
	return state, why, nil
}

// sender returns the account that signed a transaction.
func sender(tx *types.Transaction) (common.Address, error) {
	return types.Sender(types.LatestSignerForChainID(tx.ChainId()), tx)
}

func (q *Queue) put(e *entry) {
	h := e.tx.Hash()
	q.txs[h] = e
	q.order = append(q.order, h)
	q.bytes += len(e.raw)
}

func (q *Queue) remove(h common.Hash) {
	q.bytes -= len(q.txs[h].raw)
	delete(q.txs, h)
	q.order = slices.DeleteFunc(q.order, func(o common.Hash) bool { return o == h })
}

// room makes room for a transaction by forgetting those that are done.
func (q *Queue) room(size int) bool {
	done := 0
	for _, e := range q.txs {
		if e.state.done() {
			done++
		}
	}
	for _, h := range slices.Clone(q.order) {
		full := len(q.txs) >= MaxTransactions || q.bytes+size > MaxBytes
		if q.txs[h].state.done() && (full || done > maxDone) {
			q.remove(h)
			done--
		}
	}
	return len(q.txs) < MaxTransactions && q.bytes+size <= MaxBytes
}

func (q *Queue) kick() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Seen tells the queue that a peer announced or sent a transaction, and whether this node's pool has it now,
// from where all peers get it. A hash alone shows nothing: whoever has it from a wallet's question for the
// receipt, or from another name of a peer that keeps the transaction, could end its sending by it. Seen is
// cheap for transactions of others.
func (q *Queue) Seen(h common.Hash, from enode.ID, here bool) {
	q.mu.Lock()
	e := q.txs[h]
	if e == nil || e.state.done() {
		q.mu.Unlock()
		return
	}
	if _, ours := e.targets[from]; ours {
		e.targets[from] = true // it only repeats what it got from here
	} else if len(e.targets) == 0 {
		e.told = "a peer told of it before it was sent: it is known elsewhere already"
	} else {
		e.told = "a peer that did not get it from here told of it"
	}
	if e.told == "" || !here {
		q.mu.Unlock()
		return
	}
	e.state, e.why = Seen, e.told
	q.mu.Unlock()
	q.kick()
}

// Mined tells the queue which transactions are in a block, and how many peers were asked for that block.
// It is cheap for transactions of others. One peer alone could say so to keep a transaction for itself: its
// word counts only when there was time for others to get the transaction.
func (q *Queue) Mined(block []common.Hash, peers int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, h := range block {
		e := q.txs[h]
		if e == nil || e.state.done() {
			continue
		}
		q.include(e, Mined, peers)
	}
}

// Used is Mined for nonces: it tells which is the first of accounts that the last blocks left free. So a transaction ends that
// another one replaced, or that a wallet gave once more after it was mined.
func (q *Queue) Used(next map[common.Address]uint64, peers int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.txs {
		if !e.state.done() && e.tx.Nonce() < next[e.from] && e.mined != Mined {
			q.include(e, Used, peers)
		}
	}
}

// include notes that a block has a transaction or its nonce. q.mu is held.
func (q *Queue) include(e *entry, how State, peers int) {
	if e.mined = how; peers > 1 {
		e.end()
	}
	q.kick()
}

// end says that a transaction is done by what was said of blocks.
func (e *entry) end() {
	e.state, e.why = e.mined, "it is in a block on which the peers agree"
	if e.mined == Used {
		e.why = "its nonce was used in a block on which the peers agree, by it or by another transaction"
	}
}

// alone is when the word of one peer counts that the transaction was mined, or its nonce used.
func (e *entry) alone() time.Time { return e.added.Add(againWait[1]) }

// Run sends transactions until ctx ends. It waits for deliveries that are under way.
func (q *Queue) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-q.wake:
		case <-timer.C:
		}
		timer.Reset(q.step(ctx, &wg))
		if err := q.save(); err != nil {
			q.log.Warn("cannot keep the transactions that wait", "err", err)
		}
	}
}

// step starts the deliveries whose time has come, and returns when the next one is due. Those that were
// tried least are first: what waits to be seen back must not hold up what nobody has got.
func (q *Queue) step(ctx context.Context, wg *sync.WaitGroup) time.Duration {
	targets, why := q.config.Targets()
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	due := now.Add(time.Hour)
	var ready []*entry
	for _, h := range q.order {
		e := q.txs[h]
		if e.mined != "" && e.alone().After(now) {
			due = earlier(due, e.alone())
		}
		switch {
		case e.state.done() || e.state == Sending:
		case e.mined != "" && !e.alone().After(now):
			e.end()
		case now.Sub(e.added) > keepTime:
			e.state, e.why = Expired, "no other peer told of it within a day"
		case e.next.After(now):
			due = earlier(due, e.next)
		default:
			ready = append(ready, e)
		}
	}
	slices.SortStableFunc(ready, func(a, b *entry) int { return a.tries - b.tries })
	for _, e := range ready {
		if q.busy == maxAtOnce || e.tries > 0 && q.again == maxAgain {
			break // the end of a delivery wakes the queue
		}
		if q.start(ctx, wg, e, targets, why, now); e.state != Sending && !e.state.done() {
			due = earlier(due, e.next)
		}
	}
	return max(due.Sub(now), 100*time.Millisecond)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// start sends one transaction to a peer that it was not sent to yet, or to one that did not keep it, or
// says why not.
func (q *Queue) start(ctx context.Context, wg *sync.WaitGroup, e *entry, targets []*enode.Node, why string, now time.Time) {
	if len(targets) == 0 {
		e.state, e.why, e.next = Held, why, now.Add(between(heldWait))
		return
	}
	var fresh, without []*enode.Node
	for _, n := range targets {
		if kept, tried := e.targets[n.ID()]; !tried {
			fresh = append(fresh, n)
		} else if !kept {
			without = append(without, n)
		}
	}
	if len(fresh) == 0 {
		fresh = without
	}
	if len(fresh) == 0 {
		e.state, e.why = Taken, fmt.Sprintf("the pools of all %d onion peers that are known have it", len(targets))
		return
	}
	n := fresh[rand.IntN(len(fresh))]
	e.state, e.why = Sending, "on a connection of its own to an onion peer"
	e.targets[n.ID()] = false // also if it fails: nobody knows then what the peer has read
	again := e.tries > 0
	e.tries++
	q.busy++
	if again {
		q.again++
	}
	wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, limitTime)
		defer cancel()
		d, err := q.config.Deliver(ctx, n, e.tx)
		q.finish(e, n.ID(), again, d, err)
	})
}

// finish notes the outcome of a delivery.
func (q *Queue) finish(e *entry, id enode.ID, again bool, d Delivery, err error) {
	q.mu.Lock()
	q.busy--
	if again {
		q.again--
	}
	now := time.Now()
	if d.Accepted {
		e.targets[id] = true
	}
	if d.Sent || d.Accepted {
		e.sent++
	}
	if !e.state.done() {
		e.state = Waiting
		switch {
		case d.Accepted:
			e.why, e.next = fmt.Sprintf("onion peers that got it: %d; it was not seen back from others yet", e.sent), now.Add(between(againWait))
		case d.Sent:
			e.why, e.next = "a peer got it and has not put it into its pool", now.Add(e.retry())
		default:
			e.why, e.next = "a connection failed", now.Add(e.retry())
			q.log.Debug("a private connection failed", "err", err)
		}
	}
	q.mu.Unlock()
	q.kick()
}

// A Status is a transaction of the queue.
type Status struct {
	Hash  common.Hash `json:"hash"`
	State State       `json:"state"`
	Why   string      `json:"why,omitempty"`
	Sent  int         `json:"sent"` // times that an onion peer got it
	Since time.Time   `json:"since"`
}

func (e *entry) status() Status {
	return Status{Hash: e.tx.Hash(), State: e.state, Why: e.why, Sent: e.sent, Since: e.added}
}

// Status returns all transactions of the queue, oldest first.
func (q *Queue) Status() []Status {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make([]Status, 0, len(q.order))
	for _, h := range q.order {
		all = append(all, q.txs[h].status())
	}
	return all
}

// Of returns the status of one transaction.
func (q *Queue) Of(h common.Hash) (Status, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.txs[h]
	if e == nil {
		return Status{}, false
	}
	return e.status(), true
}

// Own returns one transaction, its sender and its status.
func (q *Queue) Own(h common.Hash) (*types.Transaction, common.Address, Status, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.txs[h]
	if e == nil {
		return nil, common.Address{}, Status{}, false
	}
	return e.tx, e.from, e.status(), true
}

// Next returns the first nonce from n on that no transaction of an account has here. One that was
// given up does not count: its nonce is free.
func (q *Queue) Next(from common.Address, n uint64) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	used := make(map[uint64]bool)
	for _, e := range q.txs {
		if e.from == from && e.state != Expired {
			used[e.tx.Nonce()] = true
		}
	}
	for used[n] {
		n++
	}
	return n
}
