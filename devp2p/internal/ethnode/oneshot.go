package ethnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/rlp"
)

// Times of a connection that delivers one transaction.
const (
	fetchTime = 20 * time.Second // for the peer to ask for a transaction with blobs
	probeWait = 2 * time.Second  // before we ask whether the peer has the transaction now
	probes    = 3
	probeTime = 10 * time.Second // for an answer
)

// A Delivery is what a connection for one transaction has reached.
type Delivery struct {
	Sent     bool // the peer has read the transaction
	Accepted bool // the peer's pool has it
}

// Deliver returns the protocols of a connection that delivers one transaction to a peer, and
// does nothing else: the peer's other messages are dropped. done is called at the end.
func (n *Node) Deliver(tx *types.Transaction, done func(Delivery, error)) []p2p.Protocol {
	var all []p2p.Protocol
	for version, length := range Versions {
		all = append(all, p2p.Protocol{
			Name: eth.ProtocolName, Version: version, Length: length,
			Run: func(p *p2p.Peer, rw p2p.MsgReadWriter) error {
				d, err := n.deliver(p, rw, version, tx)
				done(d, err)
				return p2p.DiscRequested
			},
		})
	}
	return all
}

// errNotAsked says that a peer did not want a transaction that was announced to it.
var errNotAsked = errors.New("the peer did not ask for the transaction")

func (n *Node) deliver(p *p2p.Peer, rw p2p.MsgReadWriter, version uint, tx *types.Transaction) (d Delivery, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := n.handshake(ctx, p, rw, version); err != nil {
		return d, err
	}
	raw, err := rlp.EncodeToBytes(tx)
	if err != nil {
		return d, err
	}
	in := make(chan p2p.Msg)
	failed := make(chan error, 1)
	go func() {
		for {
			m, err := rw.ReadMsg()
			if err != nil {
				failed <- err
				return
			}
			select {
			case in <- m:
			case <-ctx.Done():
				m.Discard()
				return
			}
		}
	}()
	// await handles messages until one of a kind has come. A request for the transaction is
	// answered. It returns the message's payload.
	await := func(code uint64, limit time.Duration) ([]rlp.RawValue, error) {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		for {
			select {
			case m := <-in:
				items, err := n.oneMessage(rw, m, tx.Hash(), raw)
				if err != nil {
					return nil, err
				}
				if m.Code == code && items != nil {
					return items, nil
				}
			case err := <-failed:
				return nil, fmt.Errorf("the connection ended: %w", err)
			case <-timer.C:
				return nil, p2p.DiscReadTimeout
			}
		}
	}
	if tx.Type() == types.BlobTxType {
		a := &eth.NewPooledTransactionHashesPacket71{Types: []byte{tx.Type()}, Sizes: []uint32{uint32(tx.Size())}, Hashes: []common.Hash{tx.Hash()}}
		if err := p2p.Send(rw, eth.NewPooledTransactionHashesMsg, a); err != nil {
			return d, err
		}
		if _, err := await(eth.GetPooledTransactionsMsg, fetchTime); err != nil {
			return d, fmt.Errorf("%w: %w", errNotAsked, err)
		}
	} else if err := p2p.Send(rw, eth.TransactionsMsg, []rlp.RawValue{raw}); err != nil {
		return d, err
	}
	// The protocol has no receipt for a transaction. Messages are handled in order, so an
	// answer to a later request shows that the peer has read it.
	for i := range uint64(probes) {
		wait := time.NewTimer(probeWait)
	idle:
		for {
			select {
			case m := <-in:
				if _, err := n.oneMessage(rw, m, tx.Hash(), raw); err != nil {
					wait.Stop()
					return d, err
				}
			case err := <-failed:
				wait.Stop()
				return d, fmt.Errorf("the connection ended: %w", err)
			case <-wait.C:
				break idle
			}
		}
		q := &eth.GetPooledTransactionsPacket{RequestId: i + 1, GetPooledTransactionsRequest: []common.Hash{tx.Hash()}}
		if err := p2p.Send(rw, eth.GetPooledTransactionsMsg, q); err != nil {
			return d, err
		}
		items, err := await(eth.PooledTransactionsMsg, probeTime)
		if err != nil {
			return d, err
		}
		d.Sent = true
		if len(items) == 1 {
			got, err := decodeTx(items[0])
			if d.Accepted = err == nil && got.Hash() == tx.Hash(); d.Accepted {
				return d, nil
			}
		}
	}
	return d, nil
}

// oneMessage handles a message of a connection for one transaction. It returns the items
// of an answer, and a list that is not nil for a request of the transaction, which it
// answers.
func (n *Node) oneMessage(rw p2p.MsgReadWriter, m p2p.Msg, hash common.Hash, raw []byte) ([]rlp.RawValue, error) {
	defer m.Discard()
	if m.Size > maxMessage {
		return nil, malformed("a message of %d bytes", m.Size)
	}
	switch m.Code {
	case eth.GetPooledTransactionsMsg:
		var q eth.GetPooledTransactionsPacket
		if m.Size > maxRequest {
			return nil, malformed("a request of %d bytes", m.Size)
		}
		if err := decode(m, &q); err != nil {
			return nil, err
		}
		a := &eth.PooledTransactionsRLPPacket{RequestId: q.RequestId}
		for _, h := range q.GetPooledTransactionsRequest {
			if h == hash {
				a.PooledTransactionsRLPResponse = []rlp.RawValue{raw}
				break
			}
		}
		if err := p2p.Send(rw, eth.PooledTransactionsMsg, a); err != nil {
			return nil, err
		}
		return a.PooledTransactionsRLPResponse, nil
	case eth.PooledTransactionsMsg:
		var a eth.PooledTransactionsRLPPacket
		if err := decode(m, &a); err != nil {
			return nil, err
		}
		if len(a.PooledTransactionsRLPResponse) > 1 {
			return nil, malformed("more transactions than asked for")
		}
		if a.PooledTransactionsRLPResponse == nil {
			return []rlp.RawValue{}, nil
		}
		return a.PooledTransactionsRLPResponse, nil
	}
	return nil, nil
}
