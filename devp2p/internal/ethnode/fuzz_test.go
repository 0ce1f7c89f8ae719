package ethnode

import (
	"bytes"
	"context"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/rlp"
)

// discard is a connection that takes everything and sends nothing.
type discard struct{}

func (discard) ReadMsg() (p2p.Msg, error) { select {} }
func (discard) WriteMsg(m p2p.Msg) error  { return m.Discard() }

// one is a connection with one message.
type one struct {
	discard
	m p2p.Msg
}

func (o one) ReadMsg() (p2p.Msg, error) { return o.m, nil }

// FuzzMessage gives a node any message. Nothing may be held when it is handled.
func FuzzMessage(f *testing.F) {
	b, err := testChain()
	if err != nil {
		f.Fatal(err)
	}
	chain, err := NewChain(b.spec, 0)
	if err != nil {
		f.Fatal(err)
	}
	seed := func(code byte, v any) {
		raw, err := rlp.EncodeToBytes(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(code, raw)
	}
	block := b.chain.GetBlockByNumber(3)
	seed(eth.TransactionsMsg, block.Transactions())
	seed(eth.NewPooledTransactionHashesMsg, eth.NewPooledTransactionHashesPacket71{Types: []byte{2}, Sizes: []uint32{9}, Hashes: []common.Hash{{1}}})
	seed(eth.GetBlockHeadersMsg, []any{uint(7), []any{block.Hash(), uint(1), uint(0), false}})
	seed(eth.GetReceiptsMsg, []any{uint(7), uint(1), []common.Hash{block.Hash()}})
	seed(eth.BlockHeadersMsg, []any{uint(1), []any{block.Header()}})
	seed(eth.BlockBodiesMsg, []any{uint(2), []any{block.Body()}})
	seed(eth.ReceiptsMsg, []any{uint(3), false, []any{[]uint{}}})
	seed(eth.BlockAccessListsMsg, []any{uint(4), []any{[]byte{}}})
	seed(eth.PooledTransactionsMsg, []any{uint(5), block.Transactions()})
	seed(eth.BlockRangeUpdateMsg, []any{uint(1), uint(2), common.Hash{1}})
	hashes := []common.Hash{block.Hash()}
	queries := []*query{
		{class: headers, headers: &eth.GetBlockHeadersRequest{Origin: eth.HashOrNumber{Hash: block.Hash()}, Amount: 3}},
		{class: bodies, hashes: hashes}, {class: receipts, hashes: hashes}, {class: accessLists, hashes: hashes},
		{class: transactions, hashes: hashes},
	}
	h := block.Header()
	f.Fuzz(func(t *testing.T, code byte, raw []byte) {
		n := New(Config{Chain: chain})
		n.headers.add(block.Hash(), &roots{number: 3, txs: h.TxHash, uncles: h.UncleHash, receipts: h.ReceiptHash, withdrawals: h.WithdrawalsHash})
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		m := p2p.Msg{Code: uint64(code) % 0x18, Size: uint32(len(raw)), Payload: bytes.NewReader(raw)}
		p := newPeer(ctx, cancel, p2p.NewPeer(enode.ID{1}, "x", nil), one{m: m}, eth.ETH71, &eth.StatusPacket{LatestBlock: 9})
		waits := make([]*pending, len(queries))
		for i, q := range queries {
			waits[i] = &pending{q, make(chan *answer, 1)}
			p.asked[uint64(i+1)] = waits[i]
		}
		err := n.readOne(p)
		for i, w := range waits {
			select {
			case a := <-w.reply:
				if err != nil {
					t.Errorf("an answer was taken, and is a fault: %v", err)
				}
				if len(a.items) > queries[i].amount() {
					t.Errorf("%d items of %d", len(a.items), queries[i].amount())
				}
				if n.verify(ctx, p, queries[i], a) == nil {
					a.fit(eth.ETH69)
					if _, err := rlp.EncodeToBytes(a.message(1, queries[i].class, eth.ETH70)); err != nil {
						t.Error(err)
					}
				}
				a.release()
			default:
			}
		}
		if !n.answers.TryAcquire(answerBytes) || !n.parsing.TryAcquire(parsingBytes) {
			t.Error("bytes were not given back")
		}
	})
}

// FuzzStatus gives a node any first message.
func FuzzStatus(f *testing.F) {
	raw, err := rlp.EncodeToBytes(&eth.StatusPacket{ProtocolVersion: 69, LatestBlockHash: common.Hash{1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(byte(0), raw)
	f.Fuzz(func(t *testing.T, code byte, raw []byte) {
		s, err := readStatus(one{m: p2p.Msg{Code: uint64(code), Size: uint32(len(raw)), Payload: bytes.NewReader(raw)}})
		if (s == nil) == (err == nil) {
			t.Errorf("%v, %v", s, err)
		}
	})
}
