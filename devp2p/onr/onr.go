// Package onr speaks onr/1, by which nodes behind onion services tell each other
// node records: no UDP, no addresses. docs/spec/onr.md specifies it.
//
// A peer sends its own record, and a new one when that changes. Records of other
// nodes are told only to a peer that asks, so nothing floods. Each record is signed
// by its node and has an onion (devp2p.Onion3).
package onr

import (
	"log/slog"
	"time"

	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
)

// The capability.
const (
	Name    = "onr"
	Version = 1
	length  = 3 // messages
)

// MaxRecords is how many records an answer may have.
const MaxRecords = 64

// A Book keeps node records.
type Book interface {
	// Add offers a record. The book keeps it if it has none of this node with the same
	// or a higher sequence number. An error says why it did not keep the record; it is
	// no fault of the peer. The source begins with "onr:". After the record of a sidecar
	// comes the node behind it (Behind), whose record is not signed.
	Add(n *enode.Node, source string) error
	// Known returns at most max records that a peer may be told. Those that Check refuses
	// are left out of answers.
	Known(max int) []*enode.Node
	// Self returns this node's own record, or nil if it has no onion (yet).
	Self() *enode.Node
}

// Config is how the protocol behaves. The zero Config is usual.
type Config struct {
	// Ask is the longest time between two questions to one peer. The first questions come
	// sooner. Zero: ten minutes. At least minAsk.
	Ask time.Duration
	// Report, if not nil, learns what came of a peer: the number of records in an answer
	// that the book kept, or the error for which the peer was disconnected. It is called
	// by several goroutines.
	Report func(peer enode.ID, kept int, err error)
	// Log receives what peers did wrong, at level debug, without their names; nil: nothing.
	Log *slog.Logger
}

// The times of the protocol. docs/spec/onr.md has those that a peer can notice.
const (
	minAsk       = 15 * time.Second // between two questions
	defaultAsk   = 10 * time.Minute
	answerWithin = time.Minute
	selfEvery    = time.Minute     // between two own records
	lookAtSelf   = 2 * time.Second // how soon a changed record is noticed
	firstPause   = 5 * time.Second // between the first two questions; each pause is twice the one before
)

// Protocol returns onr/1 for a p2p.Server. It runs until the connection ends.
func Protocol(book Book, cfg Config) p2p.Protocol {
	if cfg.Ask == 0 {
		cfg.Ask = defaultAsk
	}
	cfg.Ask = max(cfg.Ask, minAsk)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Report == nil {
		cfg.Report = func(enode.ID, int, error) {}
	}
	return p2p.Protocol{Name: Name, Version: Version, Length: length,
		Run: func(p *p2p.Peer, rw p2p.MsgReadWriter) error { return newSession(p, rw, book, cfg).run() }}
}
