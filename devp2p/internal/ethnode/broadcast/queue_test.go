package broadcast

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/p2p/enode"
)

var signKey = newKey()

func newKey() *ecdsa.PrivateKey {
	k, err := crypto.GenerateKey()
	if err != nil {
		panic(err)
	}
	return k
}

func newTx(nonce uint64) *types.Transaction {
	return types.MustSignNewTx(signKey, types.LatestSignerForChainID(big.NewInt(1)), &types.DynamicFeeTx{
		ChainID: big.NewInt(1), Nonce: nonce, Gas: 21000, To: &common.Address{1},
	})
}

// world is the peers of a queue.
type world struct {
	mu     sync.Mutex
	nodes  []*enode.Node
	sent   map[enode.ID]int
	result func(enode.ID) (Delivery, error)
	before func() // runs before each delivery
}

func (w *world) add(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		w.nodes = append(w.nodes, enode.NewV4(&newKey().PublicKey, nil, 30303, 0))
	}
}

func (w *world) targets() ([]*enode.Node, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.nodes) == 0 {
		return nil, "nobody is there"
	}
	return w.nodes, ""
}

func (w *world) deliver(_ context.Context, n *enode.Node, _ *types.Transaction) (Delivery, error) {
	if w.before != nil {
		w.before()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sent == nil {
		w.sent = make(map[enode.ID]int)
	}
	w.sent[n.ID()]++
	if w.result != nil {
		return w.result(n.ID())
	}
	return Delivery{Sent: true, Accepted: true}, nil
}

func (w *world) reached() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sent)
}

// times returns how many deliveries there were.
func (w *world) times() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.sent {
		n += k
	}
	return n
}

func (w *world) got(id enode.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent[id] > 0
}

// run runs a queue with virtual time.
func run(t *testing.T, w *world, dir string, test func(*Queue)) {
	synctest.Test(t, func(t *testing.T) {
		q, err := New(Config{Targets: w.targets, Deliver: w.deliver, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { q.Run(ctx) })
		test(q)
		cancel()
		wg.Wait()
	})
}

func state(t *testing.T, q *Queue, tx *types.Transaction) State {
	t.Helper()
	s, ok := q.Of(tx.Hash())
	if !ok {
		t.Fatal("the transaction is forgotten")
	}
	return s.State
}

func TestHeldThenSeen(t *testing.T) {
	w := new(world)
	run(t, w, "", func(q *Queue) {
		tx := newTx(1)
		s, why, err := q.Submit(tx)
		if s != Held || why != "nobody is there" || err != nil {
			t.Fatalf("%v, %q, %v", s, why, err)
		}
		time.Sleep(10 * time.Minute)
		if s := state(t, q, tx); s != Held || w.reached() != 0 {
			t.Fatalf("%v, sent to %d", s, w.reached())
		}
		w.add(5)
		time.Sleep(2 * time.Minute)
		if w.reached() == 0 {
			t.Fatal("it is not sent when peers are there")
		}
		w.mu.Lock()
		var target enode.ID
		for target = range w.sent {
		}
		w.mu.Unlock()
		q.Seen(tx.Hash(), target, true)
		if s := state(t, q, tx); s == Seen {
			t.Error("a receiver's own announcement counts as another's")
		}
		q.Seen(common.Hash{1}, enode.ID{1}, true)
		q.Seen(tx.Hash(), enode.ID{1}, true)
		if s := state(t, q, tx); s != Seen {
			t.Errorf("%v after another peer told of it", s)
		}
		n := w.reached()
		time.Sleep(time.Hour)
		if w.reached() != n {
			t.Error("it is sent on after it was seen")
		}
	})
}

func TestAllHaveIt(t *testing.T) {
	w := new(world)
	w.add(3)
	run(t, w, "", func(q *Queue) {
		tx := newTx(1)
		if s, _, err := q.Submit(tx); s != Waiting || err != nil {
			t.Fatal(s, err)
		}
		if _, _, err := q.Submit(tx); !errors.Is(err, ErrKnown) {
			t.Error(err)
		}
		time.Sleep(30 * time.Minute)
		if s := state(t, q, tx); s != Taken || w.reached() != 3 {
			t.Errorf("%v, sent to %d", s, w.reached())
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for id, n := range w.sent {
			if n != 1 {
				t.Errorf("%v got it %d times", id, n)
			}
		}
	})
}

func TestFailures(t *testing.T) {
	w := &world{result: func(enode.ID) (Delivery, error) { return Delivery{}, errors.New("no way") }}
	w.add(2)
	run(t, w, "", func(q *Queue) {
		tx := newTx(1)
		if _, _, err := q.Submit(tx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if s := state(t, q, tx); s.done() {
			t.Errorf("%v", s)
		}
		defer func() { // with the lock given back
			time.Sleep(keepTime)
			if s := state(t, q, tx); s != Expired {
				t.Errorf("%v after a day", s)
			}
		}()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, n := range w.sent {
			if n < 5 {
				t.Errorf("%d tries in an hour", n)
			}
		}
	})
}

func TestBounds(t *testing.T) {
	q, err := New(Config{Targets: new(world).targets})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(MaxTransactions) {
		if _, _, err := q.Submit(newTx(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := q.Submit(newTx(MaxTransactions)); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	q.Seen(newTx(0).Hash(), enode.ID{1}, true)
	if _, _, err := q.Submit(newTx(MaxTransactions)); err != nil {
		t.Errorf("one that is done keeps the place of another: %v", err)
	}
	if len(q.Status()) != MaxTransactions {
		t.Error(len(q.Status()))
	}
}

func TestNoDisk(t *testing.T) {
	q, err := New(Config{Targets: new(world).targets, Dir: filepath.Join(t.TempDir(), "missing")})
	if err != nil {
		t.Fatal(err)
	}
	if s, why, err := q.Submit(newTx(1)); s != Held || err != nil || !strings.Contains(why, "disk") {
		t.Errorf("%v, %q, %v", s, why, err)
	}
}

func TestRestart(t *testing.T) {
	dir := t.TempDir()
	w := new(world)
	q, err := New(Config{Targets: w.targets, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	tx := newTx(1)
	if _, _, err := q.Submit(tx); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, fileName)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	w.add(1)
	run(t, w, dir, func(q *Queue) {
		time.Sleep(10 * time.Minute)
		if s := state(t, q, tx); s != Taken {
			t.Errorf("%v after a restart", s)
		}
	})
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of nothing: %v", err)
	}
	if err := os.WriteFile(file, []byte(`[{"raw":"0x01"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Targets: w.targets, Dir: dir}); err == nil {
		t.Error("a damaged file is no error")
	}
}

// TestNext: the next nonce of an account counts what waits here, without gaps; also after a restart.
// What was given up does not count.
func TestNext(t *testing.T) {
	w, dir := new(world), t.TempDir()
	from := crypto.PubkeyToAddress(signKey.PublicKey)
	check := func(q *Queue, want map[uint64]uint64) {
		t.Helper()
		for n, next := range want {
			if got := q.Next(from, n); got != next {
				t.Errorf("from %d: %d, want %d", n, got, next)
			}
			if got := q.Next(common.Address{1}, n); got != n {
				t.Errorf("another account, from %d: %d", n, got)
			}
		}
	}
	waits := map[uint64]uint64{0: 0, 1: 4, 2: 4, 3: 4, 4: 4, 5: 6}
	run(t, w, dir, func(q *Queue) {
		for _, n := range []uint64{3, 1, 2, 5} {
			if _, _, err := q.Submit(newTx(n)); err != nil {
				t.Fatal(err)
			}
		}
		check(q, waits)
		tx, sender, s, ok := q.Own(newTx(2).Hash())
		if !ok || tx.Nonce() != 2 || sender != from || s.State != Held {
			t.Errorf("%v %v %+v %v", tx, sender, s, ok)
		}
		if _, _, _, ok := q.Own(newTx(9).Hash()); ok {
			t.Error("a transaction of nobody")
		}
	})
	run(t, w, dir, func(q *Queue) {
		check(q, waits)
		time.Sleep(keepTime + time.Hour)
		synctest.Wait()
		check(q, map[uint64]uint64{1: 1, 5: 5})
	})
}
