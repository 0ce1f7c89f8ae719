package ethnode

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/eth/protocols/eth"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/rlp"
)

// An answer is what a peer sent for a request, as raw items of its message.
type answer struct {
	items []rlp.RawValue
	// cut says that the last block has more receipts than the answer (eth/70).
	cut     bool
	size    int
	release func() // gives its bytes back to the budget; never nil
}

// errTrailing says that a message has other fields than its kind has.
var errTrailing = errors.New("other fields than this kind of message has")

// message returns the answer as a message to a peer of a version.
func (a *answer) message(id uint64, c *class, version uint) any {
	if c == receipts && version >= eth.ETH70 {
		return []any{id, a.cut, a.items}
	}
	return []any{id, a.items}
}

// fit makes an answer one that a peer of a version understands: before eth/70 there are no
// incomplete receipts, but an answer may have fewer items.
func (a *answer) fit(version uint) {
	if a.cut && version < eth.ETH70 {
		a.items, a.cut = a.items[:len(a.items)-1], false
	}
}

// takeAnswer hands a peer's answer to the request that waits for it. The answer's items
// are checked there (verify), and not in the loop that reads the peer.
func (n *Node) takeAnswer(p *peer, m p2p.Msg) error {
	if !n.answers.TryAcquire(int64(m.Size)) {
		return n.skipAnswer(p, m)
	}
	raw := make([]byte, m.Size)
	release := sync.OnceFunc(func() { n.answers.Release(int64(m.Size)) })
	if _, err := io.ReadFull(m.Payload, raw); err != nil {
		release()
		return malformed("answer: %w", err)
	}
	w, id, err := n.waiting(p, raw, m.Code)
	if err != nil || w == nil {
		release()
		return err
	}
	a, err := parseAnswer(raw, w.query, p.version)
	if err != nil {
		release()
		p.drop(id)
		if errors.Is(err, errTooMany) {
			return wrong("%s: %w", w.query.class.name, err)
		}
		return malformed("%s: %w", w.query.class.name, err)
	}
	a.release = release
	if !p.deliver(id, w, a) {
		release()
	}
	return nil
}

// skipAnswer drops an answer for which there is no room. The request runs into its time,
// and is made again later.
func (n *Node) skipAnswer(p *peer, m p2p.Msg) error {
	n.counts.dropped.Add(1)
	var start [32]byte
	k, err := io.ReadFull(m.Payload, start[:min(int(m.Size), len(start))])
	if err != nil {
		return malformed("answer: %w", err)
	}
	s := rlp.NewStream(io.MultiReader(bytes.NewReader(start[:k])), uint64(m.Size)) // it reads the start only
	if _, err := s.List(); err != nil {
		return malformed("answer: %w", err)
	}
	id, err := s.Uint64()
	if err != nil {
		return malformed("answer: %w", err)
	}
	p.drop(id)
	return nil
}

// waiting returns the request of an answer. It is nil without an error if the answer comes
// too late.
func (n *Node) waiting(p *peer, raw []byte, code uint64) (*pending, uint64, error) {
	content, rest, err := rlp.SplitList(raw)
	if err != nil || len(rest) > 0 {
		return nil, 0, malformed("an answer that is no list")
	}
	id, _, err := rlp.SplitUint64(content)
	if err != nil {
		return nil, 0, malformed("an answer without an ID: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.asked[id]
	if w == nil {
		if i := slices.Index(p.late[:min(p.nlate, len(p.late))], id); i >= 0 {
			return nil, id, nil
		}
		return nil, 0, faultf(p2p.DiscProtocolError, Unasked, "an answer that nobody asked for")
	}
	if w.query.class.answer != code {
		return nil, 0, faultf(p2p.DiscProtocolError, Unasked, "an answer of another kind than the request")
	}
	return w, id, nil
}

// deliver hands an answer over. It reports false if the request was given up meanwhile.
func (p *peer) deliver(id uint64, w *pending, a *answer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked[id] != w {
		return false
	}
	delete(p.asked, id)
	w.reply <- a // there is one answer for each request
	return true
}

// drop forgets a request whose answer is of no use.
func (p *peer) drop(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asked, id)
}

// parseAnswer splits an answer into its items, and checks their number.
func parseAnswer(raw []byte, q *query, version uint) (*answer, error) {
	a := &answer{size: len(raw), release: func() {}}
	content, rest, err := rlp.SplitList(raw)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, errTrailing
	}
	if _, content, err = rlp.SplitUint64(content); err != nil {
		return nil, err
	}
	if q.class == receipts && version >= eth.ETH70 {
		var cut uint64
		if cut, content, err = rlp.SplitUint64(content); err != nil {
			return nil, err
		}
		if cut > 1 {
			return nil, errTrailing
		}
		a.cut = cut == 1
	}
	list, rest, err := rlp.SplitList(content)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, errTrailing
	}
	if a.items, err = split(list, q.amount()); err != nil {
		return nil, err
	}
	if a.cut && len(a.items) == 0 {
		return nil, errTrailing
	}
	return a, nil
}
