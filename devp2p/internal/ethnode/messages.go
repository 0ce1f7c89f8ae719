package ethnode

import (
	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/rlp"
)

// Sizes of messages that peers may send, in bytes.
const (
	maxMessage  = 10 << 20  // any: the limit of the protocol
	maxAnnounce = 1 << 20   // an announcement: some times what a node announces at once
	maxRequest  = 256 << 10 // a request: 4,096 hashes and more
	maxSmall    = 256       // a block range
)

// A handler is what the node does with one kind of message.
type handler struct {
	name  string
	since uint   // the first version that has the message
	max   uint32 // bytes
	run   func(*Node, *peer, p2p.Msg) error
}

// handlers are the messages that a peer may send after its status.
var handlers map[uint64]handler

func init() { // the functions refer to the table by the classes of requests
	handlers = map[uint64]handler{
		eth.TransactionsMsg:               {"Transactions", eth.ETH69, maxMessage, (*Node).takeTransactions},
		eth.NewPooledTransactionHashesMsg: {"NewPooledTransactionHashes", eth.ETH69, maxAnnounce, (*Node).takeAnnouncement},
		eth.GetPooledTransactionsMsg:      {"GetPooledTransactions", eth.ETH69, maxRequest, (*Node).servePooled},
		eth.BlockRangeUpdateMsg:           {"BlockRangeUpdate", eth.ETH69, maxSmall, (*Node).takeRange},
		eth.PooledTransactionsMsg:         {"PooledTransactions", eth.ETH69, maxMessage, (*Node).takeAnswer},
	}
	for _, c := range classes {
		if c.parse == nil {
			continue // the pool answers it
		}
		handlers[c.ask] = handler{c.name + " request", c.since, maxRequest, func(n *Node, p *peer, m p2p.Msg) error { return n.takeRequest(p, m, c) }}
		handlers[c.answer] = handler{c.name, c.since, maxMessage, (*Node).takeAnswer}
	}
}

// readOne reads and handles one message.
func (n *Node) readOne(p *peer) error {
	m, err := p.rw.ReadMsg()
	if err != nil {
		return err
	}
	defer m.Discard()
	h, ok := handlers[m.Code]
	if !ok || p.version < h.since {
		return malformed("message code %#x", m.Code)
	}
	if m.Size > h.max {
		return malformed("%s of %d bytes", h.name, m.Size)
	}
	n.counts.message(h.name)
	return h.run(n, p, m)
}

// decode reads the content of a message.
func decode(m p2p.Msg, into any) error {
	if err := rlp.NewStream(m.Payload, uint64(m.Size)).Decode(into); err != nil {
		return malformed("message %#x: %w", m.Code, err)
	}
	return nil
}

// takeRange handles a peer's new range of blocks.
func (n *Node) takeRange(p *peer, m p2p.Msg) error {
	r := new(eth.BlockRangeUpdatePacket)
	if err := decode(m, r); err != nil {
		return err
	}
	if err := r.Validate(); err != nil {
		return malformed("block range: %w", err)
	}
	if !p.ranges.Allow() {
		return p.flood(n, "block ranges")
	}
	p.blocks.Store(r)
	n.wakeHead()
	return nil
}
