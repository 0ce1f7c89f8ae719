package onr

import (
	"crypto/ecdsa"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/chivenet/chive/devp2p"
	"github.com/chivenet/chive/devp2p/internal/nodetest"
)

// Two addresses of onion services.
const (
	onionA = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion"
	onionB = "duckduckgogg42xjoc72x3sjasowoarfbgcmvfimaftt6twagswzczad.onion"
)

// onionNode makes a record with an onion.
func onionNode(t testing.TB, key *ecdsa.PrivateKey, seq uint64, more ...enr.Entry) *enode.Node {
	return nodetest.Signed(t, key, seq, slices.Concat([]enr.Entry{devp2p.Onion3(onionA), enr.TCP(30303)}, more)...)
}

// book is a Book in memory.
type book struct {
	mu    sync.Mutex
	self  *enode.Node
	nodes map[enode.ID]*enode.Node
	from  map[enode.ID]string
}

func newBook(self *enode.Node, known ...*enode.Node) *book {
	b := &book{self: self, nodes: map[enode.ID]*enode.Node{}, from: map[enode.ID]string{}}
	for _, n := range known {
		b.nodes[n.ID()] = n
	}
	return b
}

func (b *book) Add(n *enode.Node, source string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.nodes[n.ID()]; old != nil && old.Seq() >= n.Seq() {
		return errors.New("known")
	}
	b.nodes[n.ID()], b.from[n.ID()] = n, source
	return nil
}

func (b *book) Known(max int) []*enode.Node {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*enode.Node
	for _, n := range b.nodes {
		if len(out) < max {
			out = append(out, n)
		}
	}
	return out
}

func (b *book) Self() *enode.Node {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.self
}

func (b *book) setSelf(n *enode.Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.self = n
}

func (b *book) seq(id enode.ID) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.nodes[id]; n != nil {
		return n.Seq()
	}
	return 0
}

// end is one end of a connection that a test plays, and what came of the other.
type end struct {
	*p2p.MsgPipeRW
	result chan error
}

// start runs the protocol against the test, which is the peer with a key.
func start(t *testing.T, b Book, cfg Config, peer *ecdsa.PrivateKey) end {
	t.Helper()
	ours, theirs := p2p.MsgPipe()
	id := enode.PubkeyToIDV4(&peer.PublicKey)
	p := p2p.NewPeerPipe(id, "test", []p2p.Cap{{Name: Name, Version: Version}}, ours)
	e := end{theirs, make(chan error, 1)}
	proto := Protocol(b, cfg)
	go func() {
		e.result <- proto.Run(p, ours)
		ours.Close()
	}()
	t.Cleanup(func() { theirs.Close() })
	return e
}

// next reads the message that the other side sends.
func (e end) next(t *testing.T, code uint64, into any) {
	t.Helper()
	msg, err := e.ReadMsg()
	if err != nil {
		t.Fatal(err)
	}
	if msg.Code != code {
		t.Fatalf("message %d, want %d", msg.Code, code)
	}
	if err := msg.Decode(into); err != nil {
		t.Fatal(err)
	}
}

// drain reads and forgets messages until the connection ends.
func (e end) drain() {
	for {
		msg, err := e.ReadMsg()
		if err != nil {
			return
		}
		_ = msg.Discard()
	}
}

// bytesOf returns a record in RLP.
func bytesOf(t testing.TB, n *enode.Node) rlp.RawValue {
	t.Helper()
	b, err := rlp.EncodeToBytes(n.Record())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestExchange joins two nodes: each learns the other's record and what the other
// knows, and nobody is told a record that may not be told.
func TestExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keyA, keyB, keyC := nodetest.Key(t), nodetest.Key(t), nodetest.Key(t)
		a, b, c := onionNode(t, keyA, 1), onionNode(t, keyB, 1), onionNode(t, keyC, 7)
		clear := nodetest.Signed(t, nodetest.Key(t), 1, enr.TCP(30303))
		null := enode.SignNull(onionNode(t, keyC, 1).Record(), enode.ID{1})
		bookA, bookB := newBook(a, c, clear, null), newBook(b)
		left, right := p2p.MsgPipe()
		caps := []p2p.Cap{{Name: Name, Version: Version}}
		var wg sync.WaitGroup
		run := func(b *book, other *enode.Node, rw *p2p.MsgPipeRW) {
			wg.Go(func() {
				_ = Protocol(b, Config{}).Run(p2p.NewPeerPipe(other.ID(), "test", caps, rw), rw)
				rw.Close()
			})
		}
		run(bookA, b, left)
		run(bookB, a, right)
		time.Sleep(time.Second)
		if bookA.seq(b.ID()) != 1 || bookB.seq(a.ID()) != 1 || bookB.seq(c.ID()) != 7 {
			t.Errorf("A has B %d, B has A %d and C %d", bookA.seq(b.ID()), bookB.seq(a.ID()), bookB.seq(c.ID()))
		}
		if len(bookB.nodes) != 2 {
			t.Errorf("B learned %d records, want A's and C's only", len(bookB.nodes))
		}
		if src := bookB.from[c.ID()]; !strings.HasPrefix(src, "onr:") {
			t.Errorf("source %q", src)
		}
		// A's record changes: B is told. It is told at most once a minute.
		bookA.setSelf(onionNode(t, keyA, 2))
		time.Sleep(selfEvery + lookAtSelf)
		if bookB.seq(a.ID()) != 2 {
			t.Errorf("B has A's record %d after it changed", bookB.seq(a.ID()))
		}
		// What A learns later, B gets by its next question.
		late := onionNode(t, nodetest.Key(t), 3)
		if err := bookA.Add(late, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * defaultAsk)
		if bookB.seq(late.ID()) != 3 {
			t.Error("B did not ask again")
		}
		left.Close()
		wg.Wait()
	})
}

// TestNothingRepeats counts the messages of two nodes that know everything of each
// other, in an hour: records make no echo.
func TestNothingRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := nodetest.Key(t)
		e := start(t, newBook(onionNode(t, nodetest.Key(t), 1)), Config{}, key)
		counts := map[uint64]int{}
		go func() {
			for {
				msg, err := e.ReadMsg()
				if err != nil {
					return
				}
				counts[msg.Code]++
				var q ask
				if msg.Code == askMsg && msg.Decode(&q) == nil {
					go p2p.Send(e, tellMsg, tell{ID: q.ID}) //nolint:errcheck // the test counts messages
				} else {
					_ = msg.Discard()
				}
			}
		}()
		time.Sleep(time.Hour)
		e.Close()
		synctest.Wait()
		// Questions after 0, 5, 15, 35, 75, 155, 315, 635 s, then one in ten minutes and more.
		if counts[selfMsg] != 1 || counts[tellMsg] != 0 || counts[askMsg] < 10 || counts[askMsg] > 13 {
			t.Errorf("messages in an hour: %v", counts)
		}
	})
}

// TestAnswer checks what a question brings.
func TestAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := nodetest.Key(t)
		known := []*enode.Node{onionNode(t, key, 1)} // the asker's own: it is left out
		for range MaxRecords {
			known = append(known, onionNode(t, nodetest.Key(t), 1))
		}
		e := start(t, newBook(nil, known...), Config{}, key)
		var q ask
		e.next(t, askMsg, &q) // no own record comes: this node has no onion
		for _, n := range []uint64{1, MaxRecords} {
			if err := p2p.Send(e, askMsg, ask{ID: n, Max: n}); err != nil {
				t.Fatal(err)
			}
			var got tell
			e.next(t, tellMsg, &got)
			if got.ID != n || uint64(len(got.Records)) != n {
				t.Errorf("asked for %d: %d records, ID %d", n, len(got.Records), got.ID)
			}
			if _, err := parseTell(mustRLP(t, got), ask{n, n}); err != nil {
				t.Errorf("an answer that nobody takes: %v", err)
			}
		}
	})
}

func mustRLP(t testing.TB, v any) []byte {
	t.Helper()
	b, err := rlp.EncodeToBytes(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBehind reads a sidecar's record.
func TestBehind(t *testing.T) {
	sidecar, geth := nodetest.Key(t), nodetest.Key(t)
	fork := []struct{ A, B uint64 }{{1, 2}}
	n := onionNode(t, sidecar, 1, Fronts(geth.PublicKey), enr.WithEntry("eth", fork))
	if size := len(bytesOf(t, n)); size > 260 {
		t.Errorf("record of %d bytes: too near to the limit of %d", size, enr.SizeLimit)
	}
	parsed, err := parseRecord(bytesOf(t, n))
	if err != nil {
		t.Fatal(err)
	}
	b, ok, err := Behind(parsed)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	host, port, err := devp2p.OnionOf(b)
	if err != nil || host != onionA || port != 30303 || b.ID() != enode.PubkeyToIDV4(&geth.PublicKey) || !b.Pubkey().Equal(&geth.PublicKey) {
		t.Errorf("%v, %d, %v, %v", host == onionA, port, b.ID(), err)
	}
	var got []struct{ A, B uint64 }
	if err := b.Load(enr.WithEntry("eth", &got)); err != nil || !slices.Equal(got, fork) {
		t.Errorf("eth: %v, %v", got, err)
	}
	if tellable(b) {
		t.Error("an unsigned record may be told")
	}
	if _, ok, err := Behind(onionNode(t, sidecar, 1)); ok || err != nil {
		t.Error(ok, err)
	}
}
