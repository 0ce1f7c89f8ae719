package ethnode

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/rlp"
)

// scores collects events.
type scores struct {
	mu  sync.Mutex
	all map[enode.ID][]Event
}

func (s *scores) add(id enode.ID, e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[enode.ID][]Event)
	}
	s.all[id] = append(s.all[id], e)
}

func (s *scores) has(id enode.ID, e Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.all[id], e)
}

// A rawPeer is a peer whose messages the test writes itself.
type rawPeer struct {
	t    *testing.T
	id   enode.ID
	rw   *p2p.MsgPipeRW
	done chan error
	in   chan p2p.Msg // what the node sends, with its content in memory
}

func goodStatus(t *testing.T, version uint) *eth.StatusPacket {
	t.Helper()
	b, err := testChain()
	if err != nil {
		t.Fatal(err)
	}
	c := chainOf(t)
	h := b.chain.CurrentHeader()
	return &eth.StatusPacket{
		ProtocolVersion: uint32(version), NetworkID: c.Network, Genesis: c.Genesis, ForkID: c.forkID(h),
		LatestBlock: h.Number.Uint64(), LatestBlockHash: h.Hash(),
	}
}

// connectRaw connects a peer, whose status is sent already if it is not nil.
func connectRaw(t *testing.T, n *Node, version uint, name string, s *eth.StatusPacket) *rawPeer {
	t.Helper()
	rw, id, done := pipePeer(t, n, version, name)
	p := &rawPeer{t: t, id: id, rw: rw, done: done, in: make(chan p2p.Msg, 256)}
	go func() {
		defer close(p.in)
		for {
			m, err := rw.ReadMsg()
			if err != nil {
				return
			}
			var b bytes.Buffer
			if _, err := b.ReadFrom(m.Payload); err != nil {
				return
			}
			m.Payload = &b
			p.in <- m
		}
	}()
	if s != nil {
		p.send(eth.StatusMsg, s)
		p.expect(eth.StatusMsg, new(eth.StatusPacket))
		eventually(t, "the peer is one of the node's", func() bool {
			return slices.ContainsFunc(n.list(), func(q *peer) bool { return q.id == id })
		})
	}
	return p
}

func (p *rawPeer) send(code uint64, data any) {
	p.t.Helper()
	if err := p2p.Send(p.rw, code, data); err != nil && !errors.Is(err, p2p.ErrPipeClosed) {
		p.t.Fatal(err)
	}
}

// expect waits for a message of a kind. Others are dropped.
func (p *rawPeer) expect(code uint64, into any) {
	p.t.Helper()
	for {
		m := wait(p.t, p.in, "a message")
		if m.Payload == nil {
			p.t.Fatalf("the connection ended before message %#x", code)
		}
		if m.Code == code {
			if err := m.Decode(into); err != nil {
				p.t.Fatal(err)
			}
			return
		}
	}
}

func (p *rawPeer) ended(reason p2p.DiscReason) {
	p.t.Helper()
	if err := wait(p.t, p.done, "the end of the connection"); err != error(reason) {
		p.t.Errorf("the peer is told %v, want %v", err, reason)
	}
}

// TestBadStatus sends first messages that are none, or of other chains.
func TestBadStatus(t *testing.T) {
	type status = eth.StatusPacket
	for _, test := range []struct {
		name   string
		change func(*status)
		reason p2p.DiscReason
		event  Event
	}{
		{"network", func(s *status) { s.NetworkID++ }, p2p.DiscUselessPeer, Foreign},
		{"genesis", func(s *status) { s.Genesis[0]++ }, p2p.DiscUselessPeer, Foreign},
		{"fork", func(s *status) { s.ForkID.Hash[0]++ }, p2p.DiscUselessPeer, Foreign},
		{"version", func(s *status) { s.ProtocolVersion = 68 }, p2p.DiscProtocolError, Malformed},
		{"range", func(s *status) { s.EarliestBlock = s.LatestBlock + 1 }, p2p.DiscProtocolError, Malformed},
		{"no hash", func(s *status) { s.LatestBlockHash = common.Hash{} }, p2p.DiscProtocolError, Malformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			var sc scores
			n := New(Config{Chain: chainOf(t), Score: sc.add})
			p := connectRaw(t, n, eth.ETH69, "x", nil)
			s := goodStatus(t, eth.ETH69)
			test.change(s)
			p.send(eth.StatusMsg, s)
			p.ended(test.reason)
			if !sc.has(p.id, test.event) {
				t.Errorf("no event %q", test.event)
			}
		})
	}
	for name, send := range map[string]func(*rawPeer){
		"another message": func(p *rawPeer) { p.send(eth.TransactionsMsg, []uint{}) },
		"no list":         func(p *rawPeer) { p.send(eth.StatusMsg, "status") },
		"large":           func(p *rawPeer) { p.send(eth.StatusMsg, make([]byte, maxStatus)) },
	} {
		t.Run(name, func(t *testing.T) {
			p := connectRaw(t, New(Config{Chain: chainOf(t)}), eth.ETH69, "x", nil)
			send(p)
			p.ended(p2p.DiscProtocolError)
		})
	}
}

// TestBadMessages sends messages that end a connection.
func TestBadMessages(t *testing.T) {
	hash := common.Hash{1}
	big := signedTx(testKey, 1, 0)
	for _, test := range []struct {
		name   string
		code   uint64
		data   any
		reason p2p.DiscReason
		event  Event
	}{
		{"a second status", eth.StatusMsg, goodStatus(t, eth.ETH69), p2p.DiscProtocolError, Malformed},
		{"a block", eth.NewBlockMsg, []uint{}, p2p.DiscProtocolError, Malformed},
		{"a code of eth/71", eth.GetBlockAccessListsMsg, []uint{}, p2p.DiscProtocolError, Malformed},
		{"no list", eth.TransactionsMsg, uint(1), p2p.DiscProtocolError, Malformed},
		{"no transaction", eth.TransactionsMsg, []uint{1}, p2p.DiscProtocolError, Malformed},
		{"too many items", eth.TransactionsMsg, make([]uint, maxInMessage+1), p2p.DiscProtocolError, Malformed},
		{"a large range", eth.BlockRangeUpdateMsg, make([]byte, 2*maxSmall), p2p.DiscProtocolError, Malformed},
		{"a wrong range", eth.BlockRangeUpdateMsg, []any{uint(2), uint(1), hash}, p2p.DiscProtocolError, Malformed},
		{"an announcement", eth.NewPooledTransactionHashesMsg, []any{[]byte{2}, []uint{1, 2}, []common.Hash{hash}}, p2p.DiscProtocolError, Malformed},
		{"a large announcement", eth.NewPooledTransactionHashesMsg, []any{make([]byte, 30000), make([]uint32, 30000), make([]common.Hash, 30000)}, p2p.DiscProtocolError, Malformed},
		{"a large request", eth.GetBlockBodiesMsg, []any{uint(1), make([]common.Hash, maxRequest/32)}, p2p.DiscProtocolError, Malformed},
		{"unasked headers", eth.BlockHeadersMsg, []any{uint(1), []uint{}}, p2p.DiscProtocolError, Unasked},
		{"unasked transactions", eth.PooledTransactionsMsg, []any{uint(1), []any{big}}, p2p.DiscProtocolError, Unasked},
		{"an answer without an ID", eth.ReceiptsMsg, []any{[]uint{}}, p2p.DiscProtocolError, Malformed},
		{"an empty answer", eth.BlockBodiesMsg, []uint{}, p2p.DiscProtocolError, Malformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			var sc scores
			n := New(Config{Chain: chainOf(t), Score: sc.add})
			other := connectRaw(t, n, eth.ETH69, "other", goodStatus(t, eth.ETH69))
			p := connectRaw(t, n, eth.ETH69, "x", goodStatus(t, eth.ETH69))
			p.send(test.code, test.data)
			p.ended(test.reason)
			if !sc.has(p.id, test.event) {
				t.Errorf("no event %q: %v", test.event, sc.all[p.id])
			}
			select {
			case err := <-other.done:
				t.Errorf("another peer's connection ended, too: %v", err)
			default:
			}
		})
	}
}

// TestLiars has a peer that answers wrongly: its connection ends, and another peer is asked.
func TestLiars(t *testing.T) {
	b, err := testChain()
	if err != nil {
		t.Fatal(err)
	}
	block := b.chain.GetBlockByNumber(10)
	other := b.chain.GetBlockByNumber(11)
	encode := func(v any) rlp.RawValue {
		raw, err := rlp.EncodeToBytes(v)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	body := func(b *types.Block) rlp.RawValue { return encode(b.Body()) }
	for _, test := range []struct {
		name  string
		ask   uint64
		q     any
		code  uint64
		wrong []rlp.RawValue
	}{
		{"another header", eth.GetBlockHeadersMsg, []any{uint(7), []any{block.Hash(), uint(1), uint(0), false}}, eth.BlockHeadersMsg, []rlp.RawValue{encode(other.Header())}},
		{"another number", eth.GetBlockHeadersMsg, []any{uint(7), []any{uint(10), uint(1), uint(0), false}}, eth.BlockHeadersMsg, []rlp.RawValue{encode(other.Header())}},
		{"no link", eth.GetBlockHeadersMsg, []any{uint(7), []any{uint(10), uint(2), uint(0), false}}, eth.BlockHeadersMsg, []rlp.RawValue{encode(block.Header()), encode(block.Header())}},
		{"too many headers", eth.GetBlockHeadersMsg, []any{uint(7), []any{uint(10), uint(1), uint(0), false}}, eth.BlockHeadersMsg, []rlp.RawValue{encode(block.Header()), encode(other.Header())}},
		{"another body", eth.GetBlockBodiesMsg, []any{uint(7), []common.Hash{block.Hash()}}, eth.BlockBodiesMsg, []rlp.RawValue{body(other)}},
		{"no receipts", eth.GetReceiptsMsg, []any{uint(7), []common.Hash{block.Hash()}}, eth.ReceiptsMsg, []rlp.RawValue{{0xc0}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var sc scores
			n := New(Config{Chain: chainOf(t), Score: sc.add}) // it does not run: nobody asks for the newest block
			n.headers.add(block.Hash(), &roots{number: 10, txs: block.TxHash(), uncles: block.UncleHash(), receipts: block.ReceiptHash(), withdrawals: block.Header().WithdrawalsHash})
			liar := connectRaw(t, n, eth.ETH69, "liar", goodStatus(t, eth.ETH69))
			client := connectRaw(t, n, eth.ETH69, "client", goodStatus(t, eth.ETH69))
			client.send(test.ask, test.q)
			var q struct {
				ID   uint64
				Rest []rlp.RawValue `rlp:"tail"`
			}
			liar.expect(test.ask, &q)
			honest := connectGeth(t, n, eth.ETH69) // it comes now, so that the liar is asked first
			eventually(t, "all are peers", func() bool { return len(n.list()) == 3 })
			liar.send(test.code, []any{q.ID, test.wrong})
			eventually(t, "the liar is told apart", func() bool {
				n.mu.Lock()
				defer n.mu.Unlock()
				return len(n.peers) == 2 || sc.has(liar.id, Wrong)
			})
			var a struct {
				ID   uint64
				List []rlp.RawValue
			}
			client.expect(test.code, &a)
			if a.ID != 7 || len(a.List) == 0 || slices.EqualFunc(a.List, test.wrong, func(x, y rlp.RawValue) bool { return bytes.Equal(x, y) }) {
				t.Errorf("the client got %d items, ID %d", len(a.List), a.ID)
			}
			_ = honest
		})
	}
}

// TestLateAnswer answers a request after it was given up: that is no fault.
func TestLateAnswer(t *testing.T) {
	n := New(Config{Chain: chainOf(t)})
	p := connectRaw(t, n, eth.ETH69, "x", goodStatus(t, eth.ETH69))
	peer := n.list()[0]
	w := &pending{&query{class: headers, headers: &eth.GetBlockHeadersRequest{Amount: 1}}, make(chan *answer, 1)}
	peer.asked[99] = w
	peer.forget(99, w)
	p.send(eth.BlockHeadersMsg, []any{uint(99), []uint{}})
	p.send(eth.BlockHeadersMsg, []any{uint(98), []uint{}})
	p.ended(p2p.DiscProtocolError)
	if got := n.answers.TryAcquire(answerBytes); !got {
		t.Error("the bytes of an answer were not given back")
	}
}

// TestFloods sends more than a peer's rates allow.
func TestFloods(t *testing.T) {
	t.Run("requests", func(t *testing.T) {
		var sc scores
		n := New(Config{Chain: chainOf(t), Score: sc.add})
		p := connectRaw(t, n, eth.ETH69, "x", goodStatus(t, eth.ETH69))
		go func() {
			for range requestBurst + 2*floodBurst {
				if p2p.Send(p.rw, eth.GetPooledTransactionsMsg, []any{uint(1), []common.Hash{{1}}}) != nil {
					return
				}
			}
		}()
		go func() {
			for range p.in {
			}
		}()
		p.ended(p2p.DiscUselessPeer)
		if !sc.has(p.id, Flood) {
			t.Error("no event")
		}
	})
	t.Run("at the same time", func(t *testing.T) {
		n := New(Config{Chain: chainOf(t)})
		connectRaw(t, n, eth.ETH69, "it does not answer", goodStatus(t, eth.ETH69))
		p := connectRaw(t, n, eth.ETH69, "x", goodStatus(t, eth.ETH69))
		for i := range uint(maxServing + 1) {
			p.send(eth.GetBlockHeadersMsg, []any{i, []any{uint(5), uint(1), uint(0), false}})
		}
		p.ended(p2p.DiscUselessPeer)
	})
	t.Run("announcements", func(t *testing.T) {
		n := New(Config{Chain: chainOf(t)})
		p := connectRaw(t, n, eth.ETH69, "x", goodStatus(t, eth.ETH69))
		for i := range byte(40) {
			a := eth.NewPooledTransactionHashesPacket71{}
			for j := range 1000 {
				a.Types, a.Sizes = append(a.Types, 2), append(a.Sizes, 200)
				a.Hashes = append(a.Hashes, common.Hash{i, byte(j), byte(j >> 8)})
			}
			p.send(eth.NewPooledTransactionHashesMsg, a)
		}
		n.fetch.mu.Lock()
		defer n.fetch.mu.Unlock()
		if len(n.fetch.txs) > maxPeerOffer+maxBatch {
			t.Errorf("%d announced transactions are kept", len(n.fetch.txs))
		}
	})
}

// TestRelaysMakeNoCircle connects a relay with relays only: their requests go nowhere.
func TestRelaysMakeNoCircle(t *testing.T) {
	n := New(Config{Chain: chainOf(t)})
	a := connectRaw(t, n, eth.ETH69, ClientName+"/a", goodStatus(t, eth.ETH69))
	connectRaw(t, n, eth.ETH69, ClientName+"/b", goodStatus(t, eth.ETH69))
	a.send(eth.GetBlockHeadersMsg, []any{uint(1), []any{uint(5), uint(1), uint(0), false}})
	var answer eth.BlockHeadersPacket
	a.expect(eth.BlockHeadersMsg, &answer)
	if answer.RequestId != 1 || answer.List.Len() != 0 {
		t.Errorf("answer %d with %d headers", answer.RequestId, answer.List.Len())
	}
}

// TestMatchReadsOnce: an item that fits no header is read once, and not for each header.
func TestMatchReadsOnce(t *testing.T) {
	n := New(Config{Chain: chainOf(t)})
	q := &query{class: bodies}
	for i := range 100 {
		h := common.Hash{byte(i + 1)}
		q.hashes = append(q.hashes, h)
		n.headers.add(h, &roots{number: uint64(i)})
	}
	read, compared := 0, 0
	err := n.match(t.Context(), nil, q, &answer{items: []rlp.RawValue{{0xc0}}}, func(rlp.RawValue) (func(*roots) bool, error) {
		read++
		return func(*roots) bool { compared++; return false }, nil
	})
	if err == nil || read != 1 || compared != 100 {
		t.Errorf("%v: read %d times, compared %d times", err, read, compared)
	}
}

// TestLearnChain learns the chain from most of the peers.
func TestLearnChain(t *testing.T) {
	n := New(Config{})
	foreign := goodStatus(t, eth.ETH69)
	foreign.Genesis = common.Hash{9}
	connectRaw(t, n, eth.ETH69, "x", foreign)
	for range electionSize {
		if n.Chain() != nil {
			t.Fatal("decided too early")
		}
		connectRaw(t, n, eth.ETH69, "x", goodStatus(t, eth.ETH69))
	}
	if c := n.Chain(); c == nil || c.Genesis != chainOf(t).Genesis {
		t.Fatalf("the chain is %v", c)
	}
	p := connectRaw(t, n, eth.ETH69, "x", nil)
	p.send(eth.StatusMsg, foreign)
	p.ended(p2p.DiscUselessPeer)
}
