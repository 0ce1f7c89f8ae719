package onr

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/p2p/enode"
	"github.com/ethereum/go-ethereum/rlp"
	"golang.org/x/time/rate"
)

// The budgets of a peer: how many messages it may send at once. After that it may send
// one in minAsk (questions) or selfEvery (own records).
const (
	askBurst  = 8
	selfBurst = 4
)

var (
	errSlow = errors.New("onr: no answer in time")
	errGone = errors.New("onr: the connection ended") // by nobody's fault
)

// A session is one connection. The goroutine of run reads, and another one writes: a
// peer that reads nothing holds up only the writer, and its queue is short.
type session struct {
	peer *p2p.Peer
	rw   p2p.MsgReadWriter
	book Book
	cfg  Config

	questions chan ask      // the reader queues the peer's questions for the writer
	answered  chan struct{} // the reader tells the writer that its question was answered

	// Owned by the reader.
	asks, selves *rate.Limiter
	seq          uint64 // of the peer's own record
	told         bool   // the peer sent its own record

	mu      sync.Mutex
	waiting *ask // guarded by mu: the question that the peer has not answered
}

func newSession(p *p2p.Peer, rw p2p.MsgReadWriter, book Book, cfg Config) *session {
	return &session{peer: p, rw: rw, book: book, cfg: cfg,
		questions: make(chan ask, askBurst), answered: make(chan struct{}, 1),
		asks: rate.NewLimiter(rate.Every(minAsk), askBurst), selves: rate.NewLimiter(rate.Every(selfEvery), selfBurst)}
}

// run serves the connection until it ends.
func (s *session) run() error {
	done := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		if err := s.write(done); err != nil && s.blame(err) {
			s.peer.Disconnect(reason(err)) // ends the reader
		}
	})
	err := s.read()
	if s.blame(err) {
		// The writer may wait for the peer: end the connection before waiting for it.
		s.peer.Disconnect(reason(err))
	}
	close(done)
	writer.Wait()
	return reason(err)
}

// blame reports whether the peer is to blame for an error, and then tells the owner.
func (s *session) blame(err error) bool {
	if errors.Is(err, errGone) {
		return false
	}
	s.cfg.Log.Debug("onr: peer disconnected", "err", err)
	s.cfg.Report(s.peer.ID(), 0, err)
	return true
}

// reason is the error in the protocol's words.
func reason(err error) p2p.DiscReason {
	switch {
	case errors.Is(err, errGone):
		return p2p.DiscQuitting
	case errors.Is(err, errSlow):
		return p2p.DiscReadTimeout
	}
	return p2p.DiscProtocolError
}

// read handles messages until one is wrong, or the connection ends.
func (s *session) read() error {
	for {
		msg, err := s.rw.ReadMsg()
		if err != nil {
			return errGone // the server knows why
		}
		b, err := payload(msg)
		if err != nil {
			return err
		}
		if err := s.handle(msg.Code, b, time.Now()); err != nil {
			return err
		}
	}
}

// handle handles one message.
func (s *session) handle(code uint64, b []byte, now time.Time) error {
	switch code {
	case selfMsg:
		if !s.selves.AllowN(now, 1) {
			return errors.New("onr: own records too often")
		}
		return s.handleSelf(b)
	case askMsg:
		if !s.asks.AllowN(now, 1) {
			return errors.New("onr: questions too often")
		}
		q, err := parseAsk(b)
		if err != nil {
			return err
		}
		select {
		case s.questions <- q:
			return nil
		default:
			return errors.New("onr: questions faster than their answers are read")
		}
	default:
		return s.handleTell(b)
	}
}

// handleSelf takes the peer's own record.
func (s *session) handleSelf(b []byte) error {
	n, err := parseSelf(b)
	switch {
	case err != nil:
		return err
	case n.ID() != s.peer.ID():
		return errors.New("onr: own record of another node")
	case s.told && n.Seq() <= s.seq:
		return fmt.Errorf("onr: own record with sequence number %d after %d", n.Seq(), s.seq)
	}
	s.told, s.seq = true, n.Seq()
	s.add(n)
	return nil
}

// handleTell takes the answer to a question.
func (s *session) handleTell(b []byte) error {
	s.mu.Lock()
	q := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	if q == nil {
		return errors.New("onr: answer without a question")
	}
	nodes, err := parseTell(b, *q)
	if err != nil {
		return err
	}
	kept := 0
	for _, n := range nodes {
		if s.add(n) {
			kept++
		}
	}
	s.cfg.Report(s.peer.ID(), kept, nil)
	s.answered <- struct{}{} // has room: one question waits at a time
	return nil
}

// add offers a record to the book. A record of this node itself teaches nothing.
func (s *session) add(n *enode.Node) bool {
	if own := s.book.Self(); own != nil && own.ID() == n.ID() {
		return false
	}
	id := s.peer.ID()
	source := "onr:" + id.TerminalString()
	if s.book.Add(n, source) != nil {
		return false
	}
	if behind, ok, err := Behind(n); err == nil && ok {
		_ = s.book.Add(behind, source) // the sidecar's own record counts
	}
	return true
}

// write sends this node's record, questions and answers, until done.
func (s *session) write(done <-chan struct{}) error {
	var sent uint64 // sequence number of the own record that the peer has
	var sentAt time.Time
	sendSelf := func() error {
		n := s.book.Self()
		if n == nil || (!sentAt.IsZero() && (n.Seq() <= sent || time.Since(sentAt) < selfEvery)) {
			return nil
		}
		rec, ok := encodeRecord(n)
		if !ok {
			return nil // no onion yet
		}
		sent, sentAt = n.Seq(), time.Now()
		return p2p.Send(s.rw, selfMsg, self{rec})
	}
	if err := sendSelf(); err != nil {
		return err
	}
	look := time.NewTicker(lookAtSelf)
	defer look.Stop()
	next := time.NewTimer(0) // when to ask, or until when an answer must be there
	defer next.Stop()
	pause, waiting := firstPause, false
	for {
		var err error
		select {
		case <-done:
			return nil
		case <-look.C:
			err = sendSelf()
		case q := <-s.questions:
			err = s.answer(q)
		case <-s.answered:
			waiting = false
			next.Reset(pause + rand.N(pause/4+1))
			pause = min(2*pause, s.cfg.Ask)
		case <-next.C:
			if waiting {
				return errSlow
			}
			waiting = true
			next.Reset(answerWithin)
			err = s.ask()
		}
		if err != nil {
			return errGone
		}
	}
}

// ask sends a question.
func (s *session) ask() error {
	q := ask{ID: rand.Uint64(), Max: MaxRecords}
	s.mu.Lock()
	s.waiting = &q
	s.mu.Unlock()
	return p2p.Send(s.rw, askMsg, q)
}

// answer sends the records that may be told. The peer knows its own.
func (s *session) answer(q ask) error {
	out := tell{ID: q.ID, Records: []rlp.RawValue{}}
	seen := map[enode.ID]bool{s.peer.ID(): true}
	for _, n := range s.book.Known(int(q.Max) + 1) { // one of them may be the peer
		if seen[n.ID()] || uint64(len(out.Records)) == q.Max {
			continue
		}
		seen[n.ID()] = true
		if rec, ok := encodeRecord(n); ok {
			out.Records = append(out.Records, rec)
		}
	}
	return p2p.Send(s.rw, tellMsg, out)
}
