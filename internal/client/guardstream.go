package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/guard"
	"github.com/chivenet/chive/internal/stream"
)

// dirStream is a directory stream; its circuit stays open.
type dirStream struct{ *stream.Stream }

// begin opens a stream on a cache's circuit, and consumes use. asked ends when nobody waits for the answer any more.
func (k *caches) begin(asked context.Context, d *cacheCircuit, use *guard.Use, p dirclient.Purpose) (io.ReadWriteCloser, error) {
	s, err := stream.BeginDir(d.Last())
	switch {
	case use == nil && err == nil:
		return dirStream{s}, nil
	case use == nil:
		return nil, err
	case err != nil: // the circuit has just ended
		use.Cancelled(time.Now())
		return nil, err
	}
	partial := p == dirclient.Microdescriptors || p == dirclient.Descriptors
	gaveUp := func() error { return context.Cause(asked) }
	return &guardStream{dirStream: dirStream{s}, k: k, circ: d, use: use, gaveUp: gaveUp, answer: answer{partial: partial}}, nil
}

// guardStream is a directory stream to a guard, and says at its end what that means for the guard, as C tor's
// clients do: a guard whose answer came is up, whatever the answer says, and one that ended the stream before is
// unreachable for all traffic. With Config.Fast such an end is none of the guard's: a client that goes on to the
// next guard tells whoever can break its connections which guards it has.
type guardStream struct {
	dirStream
	k      *caches
	circ   *cacheCircuit
	use    *guard.Use
	gaveUp func() error // why whoever asked stopped to wait; nil: it did not

	mu     sync.Mutex // guards the fields below
	answer answer
	ended  error // by the other side
	closed bool
}

// Write implements io.Writer.
func (s *guardStream) Write(p []byte) (int, error) {
	n, err := s.dirStream.Write(p)
	s.saw(nil, err)
	return n, err
}

// Read implements io.Reader.
func (s *guardStream) Read(p []byte) (int, error) {
	n, err := s.dirStream.Read(p)
	s.saw(p[:n], err)
	return n, err
}

func (s *guardStream) saw(p []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer.add(p)
	if s.ended == nil && !s.closed {
		s.ended = err
	}
}

// Close implements io.Closer.
func (s *guardStream) Close() error {
	if s.first() {
		s.judge(time.Now())
	}
	return s.dirStream.Close()
}

func (s *guardStream) first() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.closed
	s.closed = true
	return !before
}

// judge tells the guard how the request ended.
func (s *guardStream) judge(now time.Time) {
	ours := s.k.endedByUs(s.circ)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.answer.whole() || s.answer.head && s.ended == nil && s.gaveUp() == nil: // or not wanted to its end, as an error's text
		s.use.Succeeded(now)
		s.use.Closed(now, true)
	case s.k.c.cfg.Fast || ours:
		s.use.Cancelled(now)
	case !s.answer.began && asksAgain(s.ended), !s.answer.head && errors.Is(s.gaveUp(), context.DeadlineExceeded):
		// C tor waits, or tries again, for longer than one request of ours takes: this must go on for that to count.
		s.use.Failed(now, guard.Silent)
	case s.ended != nil || s.answer.bad:
		s.use.Failed(now, guard.Unanswered)
	default:
		s.use.Cancelled(now)
	}
}

// asksAgain reports whether a stream that has an end before anything else is opened again by C tor's clients.
func asksAgain(err error) bool {
	var end *stream.EndError
	return errors.As(err, &end) && slices.Contains([]cell.EndReason{cell.EndMisc, cell.EndResolveFailed, cell.EndExitPolicy, cell.EndNoRoute, cell.EndHibernating, cell.EndResourceLimit}, end.Reason)
}

// endedByUs reports whether it was this client that closed the circuit.
func (k *caches) endedByUs(d *cacheCircuit) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return d.byUs || k.closed
}

// mostHead bounds the head of an answer, as whoever reads it does.
const mostHead = 16 << 10

// answer is what came of an answer to a directory request.
type answer struct {
	partial bool // a part of its body is enough, as of microdescriptors

	began bool   // something came
	text  []byte // until the head is there
	head  bool   // the head is there
	bad   bool   // it is none
	left  int64  // bytes of the body that are to come, if the head says so
}

func (a *answer) add(p []byte) {
	a.began = a.began || len(p) > 0
	if a.head || a.bad {
		a.left -= int64(len(p))
		return
	}
	a.text = append(a.text, p...)
	if line, _, ok := bytes.Cut(a.text, []byte("\n")); ok && !isStatus(line) || len(a.text) > mostHead+len(p) {
		a.bad, a.text = true, nil
		return
	}
	for _, end := range []string{"\n\r\n", "\n\n"} {
		if head, body, ok := bytes.Cut(a.text, []byte(end)); ok {
			a.head, a.left, a.text = true, lengthOf(head)-int64(len(body)), nil
			return
		}
	}
}

// whole reports whether nothing of the answer is missing that it needs to count as one.
func (a *answer) whole() bool { return a.head && (a.partial || a.left <= 0) }

// isStatus reports whether the line is the first one of an answer.
func isStatus(line []byte) bool {
	proto, rest, _ := bytes.Cut(line, []byte(" "))
	code, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
	n, err := strconv.Atoi(string(code))
	return bytes.HasPrefix(proto, []byte("HTTP/1.")) && err == nil && n >= 100 && n < 600
}

// lengthOf returns the length that a head gives the body; zero: it does not say.
func lengthOf(head []byte) int64 {
	for line := range bytes.Lines(head) {
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && bytes.EqualFold(name, []byte("Content-Length")) {
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
			return n
		}
	}
	return 0
}
