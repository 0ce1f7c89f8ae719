package onr

import (
	"fmt"
	"io"

	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/p2p/enr"
	"github.com/ethereum/go-ethereum/rlp"
)

// The messages, by their codes.
const (
	selfMsg = iota // the sender's own record
	askMsg         // a question for records
	tellMsg        // its answer
)

// maxSize bounds each message, in bytes of RLP.
var maxSize = [length]uint32{
	selfMsg: 3 + enr.SizeLimit,
	askMsg:  16,
	tellMsg: 16 + MaxRecords*enr.SizeLimit,
}

// self is a selfMsg.
type self struct{ Record rlp.RawValue }

// ask is an askMsg.
type ask struct {
	ID  uint64 // repeated in the answer
	Max uint64 // how many records the answer may have, 1 to MaxRecords
}

// tell is a tellMsg.
type tell struct {
	ID      uint64
	Records []rlp.RawValue
}

// payload reads a message, if its code and its size are allowed.
func payload(msg p2p.Msg) ([]byte, error) {
	if msg.Code >= length {
		return nil, fmt.Errorf("onr: message with code %d", msg.Code)
	}
	if msg.Size > maxSize[msg.Code] {
		return nil, fmt.Errorf("onr: message %d has %d bytes, more than %d", msg.Code, msg.Size, maxSize[msg.Code])
	}
	return io.ReadAll(io.LimitReader(msg.Payload, int64(msg.Size)))
}

// parseSelf reads a selfMsg.
func parseSelf(b []byte) (*enode.Node, error) {
	var m self
	if err := rlp.DecodeBytes(b, &m); err != nil {
		return nil, fmt.Errorf("onr: own record: %w", err)
	}
	return parseRecord(m.Record)
}

// parseAsk reads an askMsg.
func parseAsk(b []byte) (ask, error) {
	var m ask
	if err := rlp.DecodeBytes(b, &m); err != nil {
		return m, fmt.Errorf("onr: question: %w", err)
	}
	if m.Max == 0 || m.Max > MaxRecords {
		return m, fmt.Errorf("onr: question for %d records: want 1 to %d", m.Max, MaxRecords)
	}
	return m, nil
}

// parseTell reads a tellMsg and verifies each record, if it answers the question.
func parseTell(b []byte, q ask) ([]*enode.Node, error) {
	var m tell
	if err := rlp.DecodeBytes(b, &m); err != nil {
		return nil, fmt.Errorf("onr: answer: %w", err)
	}
	if m.ID != q.ID {
		return nil, fmt.Errorf("onr: answer to another question")
	}
	if uint64(len(m.Records)) > q.Max {
		return nil, fmt.Errorf("onr: %d records, more than %d", len(m.Records), q.Max)
	}
	out := make([]*enode.Node, 0, len(m.Records))
	seen := make(map[enode.ID]bool, len(m.Records))
	for _, raw := range m.Records {
		n, err := parseRecord(raw)
		if err != nil {
			return nil, err
		}
		if seen[n.ID()] {
			return nil, fmt.Errorf("onr: answer with two records of one node")
		}
		seen[n.ID()] = true
		out = append(out, n)
	}
	return out, nil
}

func parseRecord(raw []byte) (*enode.Node, error) {
	var r enr.Record
	if err := rlp.DecodeBytes(raw, &r); err != nil {
		return nil, fmt.Errorf("onr: record: %w", err)
	}
	return Check(&r)
}

// encodeRecord returns a node's record in RLP; ok is false if no peer may be told it.
func encodeRecord(n *enode.Node) (raw rlp.RawValue, ok bool) {
	if !tellable(n) {
		return nil, false
	}
	raw, err := rlp.EncodeToBytes(n.Record())
	return raw, err == nil
}
