package stream

import (
	"io"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// Tor has no half-close: END closes both directions of a stream (tor-spec, "closing
// streams"). Two Chives have one, by the message HALF_CLOSE (docs/spec/half-close.md).
// With other peers, CloseWrite does what comes nearest to it.

// halfClose returns the flag for streams to a hop whose far end takes HALF_CLOSE.
func halfClose(h *circuit.Hop) cell.BeginFlags {
	if h.Info().HalfClose {
		return cell.BeginHalfClose
	}
	return 0
}

// SetHalfClose says whether the client of an accepted stream takes HALF_CLOSE. It must be
// called on the channel's reader, before the next message.
func (s *Stream) SetHalfClose(taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.halves = taken
}

// HalfClose reports whether both ends take HALF_CLOSE: then the end of one direction
// does not end the other.
func (s *Stream) HalfClose() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.halves
}

// CloseWrite says that no more will be written, and ends a Write that is under way; reading
// goes on. The peer's reader sees the end of the data after all of it, if HalfClose is true.
// Otherwise END waits until the peer was silent for a second, or ended the stream itself.
func (s *Stream) CloseWrite() error {
	if !s.stopWriting() {
		return nil
	}
	// No data may follow HALF_CLOSE: wait for the Write that is under way.
	s.wmu.Lock()
	defer s.wmu.Unlock()
	return s.sendHalf()
}

// stopWriting ends writes; it reports whether HALF_CLOSE must be sent.
func (s *Stream) stopWriting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.writeClosed {
		return false
	}
	s.writeClosed = true
	if s.writeErrLocked() != nil {
		return false // it has ended already
	}
	s.wakeWriter()
	if s.halves {
		return true
	}
	s.makeEndingLocked().linger = time.AfterFunc(halfCloseLinger, panics.Contain(nil, nil, s.lingered))
	s.in.activity = false
	return false
}

func (s *Stream) sendHalf() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || s.writeErrLocked() != nil:
		return nil
	case s.peerHalf:
		s.bothLocked()
		return nil
	}
	s.halfSent = true
	s.boundHalfLocked()
	return fault.Except(fault.Closed, s.hop.Send(cell.RelayHalfClose, s.id, nil))
}

// peerHalfLocked handles HALF_CLOSE. A body is for later versions.
func (s *Stream) peerHalfLocked() error {
	switch {
	case !s.halves:
		return fault.New(fault.Protocol, "HALF_CLOSE on a stream that has none")
	case !s.connected:
		return fault.New(fault.Protocol, "HALF_CLOSE on a stream that is not open")
	case s.peerEnded || s.peerHalf:
		return fault.New(fault.Protocol, "HALF_CLOSE after the end of the data")
	}
	s.peerHalf = true
	if s.halfSent {
		s.bothLocked()
		return nil
	}
	if e := s.makeEndingLocked(); e.readErr == nil {
		e.readErr = io.EOF
	}
	s.boundHalfLocked()
	s.wakeReader()
	return nil
}

// bothLocked ends a stream whose two directions have ended. The peer sends END, too.
func (s *Stream) bothLocked() {
	s.sendEndLocked(cell.EndDone)
	s.finishLocked(io.EOF, errClosed)
	s.hop.RemoveStream(s.id, false)
}

// halfCloseTime is how long nothing may move on a stream that one end has half closed.
// The end that accepted the stream closes it then: it may have many clients. The client
// waits for longer than that can take, and closes the stream itself then: its own program
// may be gone, and a hostile exit could keep the stream for ever.
const (
	halfCloseTime   = 30 * time.Minute
	halfCloseClient = 2*halfCloseTime + time.Minute
)

var errHalfIdle = fault.New(fault.Timeout, "the stream was half closed, and nothing moved for a long time")

// boundHalfLocked begins to watch a stream that is half closed.
func (s *Stream) boundHalfLocked() {
	e := s.makeEndingLocked()
	if e.linger != nil {
		return
	}
	e.moved = s.read + s.wrote
	e.linger = time.AfterFunc(s.halfTime(), panics.Contain(nil, nil, s.halfIdled))
}

func (s *Stream) halfTime() time.Duration {
	if s.hop.Info().Client {
		return halfCloseClient
	}
	return halfCloseTime
}

// halfIdled closes the stream, unless bytes have moved.
func (s *Stream) halfIdled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.writeErrLocked() != nil {
		return
	}
	if moved := s.read + s.wrote; moved != s.ending.moved {
		s.ending.moved = moved
		s.ending.linger.Reset(s.halfTime())
		return
	}
	s.sendEndLocked(cell.EndTimeout)
	s.finishLocked(errHalfIdle, errHalfIdle)
	s.hop.RemoveStream(s.id, false)
}

// halfCloseLinger is how long the peer must be silent before a stream whose
// write side was closed is ended. END closes both directions at a C tor exit,
// so that sending it at once would cut off the answer.
const halfCloseLinger = time.Second

// errHalfClosed is what a reader learns who waits for a peer that says nothing after
// CloseWrite.
var errHalfClosed = fault.New(fault.Network, "the stream was ended because the peer said nothing after CloseWrite, and Tor has no half-close: its answer may be missing: %w", io.ErrUnexpectedEOF)

// lingered runs when the linger time has passed. The first time, the stream is ended. A
// peer that has closed its own side, too, answers with END, and all of its answer was
// received; otherwise the time passes once more.
func (s *Stream) lingered() {
	GrowStack()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.peerEnded {
		return
	}
	if s.in.activity || s.buf.n > 0 {
		s.in.activity = false
		s.ending.linger.Reset(halfCloseLinger)
		return
	}
	if !s.endSent {
		s.sendEndLocked(cell.EndDone)
		s.ending.linger.Reset(halfCloseLinger)
		return
	}
	// A C tor exit closes the connection now and says no more. This is no EOF: the
	// peer may have been about to answer.
	s.finishLocked(errHalfClosed, errClosed)
	s.hop.RemoveStream(s.id, false)
}
