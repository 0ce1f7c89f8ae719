package broadcast

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/p2p/enode"
)

// TestMined: what is in a block is done, and is not sent again.
func TestMined(t *testing.T) {
	w := &world{result: func(enode.ID) (Delivery, error) { return Delivery{Sent: true}, nil }} // no pool has it any more
	w.add(1)
	dir := t.TempDir()
	run(t, w, dir, func(q *Queue) {
		tx, other := newTx(1), newTx(2)
		for _, tx := range []*types.Transaction{tx, other} {
			if _, _, err := q.Submit(tx); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		q.Mined([]common.Hash{{1}, tx.Hash()}, 2)
		synctest.Wait()
		if s := state(t, q, tx); s != Mined {
			t.Errorf("%v", s)
		}
		if s := state(t, q, other); s.done() {
			t.Errorf("another one: %v", s)
		}
		q.Mined([]common.Hash{other.Hash()}, 2)
		n := w.times()
		time.Sleep(keepTime)
		if w.times() != n {
			t.Error("it is sent on after it was mined")
		}
		q.Seen(tx.Hash(), enode.ID{1}, true)
		if s := state(t, q, tx); s != Mined {
			t.Errorf("%v after a peer told of it", s)
		}
	})
	run(t, w, dir, func(q *Queue) {
		if all := q.Status(); len(all) != 0 {
			t.Errorf("after a restart: %v", all)
		}
	})
}

// TestUsed: a transaction that another one replaced, or that was given once more after it was mined, is done and is not sent
// again; the word of one peer alone counts later.
func TestUsed(t *testing.T) {
	w := &world{result: func(enode.ID) (Delivery, error) { return Delivery{Sent: true}, nil }}
	w.add(1)
	run(t, w, "", func(q *Queue) {
		replaced, other := newTx(1), newTx(3)
		from, err := sender(replaced)
		if err != nil {
			t.Fatal(err)
		}
		for _, tx := range []*types.Transaction{replaced, other} {
			if _, _, err := q.Submit(tx); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(firstWait[1])
		q.Used(map[common.Address]uint64{from: 2, {1}: 9}, 1)
		synctest.Wait()
		if s := state(t, q, replaced); s.done() {
			t.Errorf("%v by the word of one", s)
		}
		q.Used(map[common.Address]uint64{from: 2, {1}: 9}, 2)
		synctest.Wait()
		if s, o := state(t, q, replaced), state(t, q, other); s != Used || o.done() {
			t.Errorf("%v and %v", s, o)
		}
		q.Mined([]common.Hash{other.Hash()}, 2)
		if s, _, err := q.Submit(other); s.done() || err != nil { // the wallet has not seen that it was mined
			t.Errorf("%v, %v", s, err)
		}
		q.Used(map[common.Address]uint64{from: 4}, 1)
		time.Sleep(againWait[1] + time.Second)
		if s := state(t, q, other); s != Used {
			t.Errorf("given once more: %v", s)
		}
		n := w.times()
		if time.Sleep(time.Hour); w.times() != n {
			t.Error("it is sent on after its nonce was used")
		}
	})
}

// TestMinedByOne: one peer that says that a transaction was mined cannot keep it from a peer that becomes
// known soon after that; and its word counts in the end.
func TestMinedByOne(t *testing.T) {
	w := &world{result: func(enode.ID) (Delivery, error) { return Delivery{Sent: true}, nil }}
	w.add(1)
	run(t, w, "", func(q *Queue) {
		tx := newTx(1)
		if _, _, err := q.Submit(tx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(firstWait[1])
		q.Mined([]common.Hash{tx.Hash()}, 1)
		synctest.Wait()
		if s := state(t, q, tx); s.done() {
			t.Errorf("%v by the word of one", s)
		}
		w.add(1)
		time.Sleep(againWait[1] - firstWait[1] + time.Second)
		if w.reached() != 2 {
			t.Error("the other peer did not get it")
		}
		n := w.times()
		if s := state(t, q, tx); s != Mined {
			t.Errorf("%v in the end", s)
		}
		if time.Sleep(time.Hour); w.times() != n {
			t.Error("it is sent on after it was mined")
		}
	})
}

// TestSoon: with one peer, a failure, and a peer that comes late, cost no more than their own wait.
func TestSoon(t *testing.T) {
	w := new(world)
	run(t, w, "", func(q *Queue) {
		tx := newTx(1)
		if s, _, err := q.Submit(tx); s != Held || err != nil {
			t.Fatal(s, err)
		}
		time.Sleep(firstWait[1])
		w.add(1)
		time.Sleep(heldWait[1] + time.Second)
		if w.times() != 1 {
			t.Errorf("sent %d times in %v after a peer came", w.times(), heldWait[1])
		}
	})
	w.result = func(enode.ID) (Delivery, error) { return Delivery{}, errors.New("no way") }
	w.sent = nil
	run(t, w, "", func(q *Queue) {
		if _, _, err := q.Submit(newTx(1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(firstWait[1] + quickTries*failWait[1] + time.Second)
		if n := w.times(); n < quickTries+1 {
			t.Errorf("%d tries, each after %v at most", n, failWait[1])
		}
		before := w.times()
		time.Sleep(time.Hour)
		if n := w.times() - before; n < 40 || n > 180 {
			t.Errorf("%d tries in an hour of failures", n)
		}
	})
}

// TestNewFirst: transactions that wait to be seen back do not hold up a new one, also if each delivery
// takes as long as it may.
func TestNewFirst(t *testing.T) {
	w := new(world)
	w.add(1)
	w.result = func(enode.ID) (Delivery, error) { return Delivery{Sent: true}, nil }
	var slow atomic.Bool
	w.before = func() {
		if slow.Load() {
			time.Sleep(limitTime)
		}
	}
	run(t, w, "", func(q *Queue) {
		for i := range uint64(50) {
			if _, _, err := q.Submit(newTx(i)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Minute)
		slow.Store(true)
		time.Sleep(10 * time.Minute)
		slow.Store(false)
		for i := range uint64(10) {
			tx := newTx(1000 + i)
			if _, _, err := q.Submit(tx); err != nil {
				t.Fatal(err)
			}
			time.Sleep(firstWait[1] + time.Second)
			if s, _ := q.Of(tx.Hash()); s.Sent == 0 {
				t.Errorf("transaction %d is not sent in %v: %v", i, firstWait[1], s.State)
			}
		}
	})
}

// TestOnlyOthersCount: a peer that got the transaction and said that it has it not, cannot make it
// "seen" after that.
func TestOnlyOthersCount(t *testing.T) {
	w := &world{result: func(enode.ID) (Delivery, error) { return Delivery{Sent: true}, nil }}
	w.add(2)
	run(t, w, "", func(q *Queue) {
		tx := newTx(1)
		if _, _, err := q.Submit(tx); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			time.Sleep(time.Minute)
			for _, n := range w.nodes {
				if w.got(n.ID()) {
					q.Seen(tx.Hash(), n.ID(), true)
				}
			}
			if s := state(t, q, tx); s == Seen {
				t.Fatal("it is seen by peers that got it from here")
			}
		}
	})
}

// TestHashAlone: a peer that tells a hash, and gives nobody the transaction, does not end its sending. The
// transaction itself does, also if it comes from one of those that got it from here.
func TestHashAlone(t *testing.T) {
	w := new(world)
	w.add(20) // more than get it in that time
	run(t, w, "", func(q *Queue) {
		tx := newTx(1)
		if _, _, err := q.Submit(tx); err != nil {
			t.Fatal(err)
		}
		q.Seen(tx.Hash(), enode.ID{1}, false) // as one does that knows the hash from elsewhere
		time.Sleep(firstWait[1])
		synctest.Wait()
		if s := state(t, q, tx); s.done() || w.times() != 1 {
			t.Fatalf("%v by a hash, sent %d times", s, w.times())
		}
		q.Seen(tx.Hash(), enode.ID{2}, false)
		time.Sleep(againWait[1])
		if w.reached() < 2 {
			t.Errorf("sent to %d peer, and others have told the hash only", w.reached())
		}
		for _, n := range w.nodes {
			if w.got(n.ID()) {
				q.Seen(tx.Hash(), n.ID(), true)
				break
			}
		}
		if s := state(t, q, tx); s != Seen {
			t.Errorf("%v when the transaction is here, and another has told of it", s)
		}
	})
}
