package flow

import "github.com/chivenet/chive/internal/fault"

// Windows of streams on circuits without congestion control (tor-spec,
// "Stream-level flow control"), in cells.
const (
	streamWindow = 500
	streamInc    = 50

	// dueBelow is how much unread data, in bytes, may wait when a stream-level
	// SENDME is sent: ten cells, as in C tor.
	dueBelow = 10 * 498
)

// StreamSender is the sending half of a stream's window.
type StreamSender struct{ window int32 }

// NewStreamSender returns a full window of 500 cells.
func NewStreamSender() StreamSender { return StreamSender{streamWindow} }

// Available returns how many DATA cells the stream may send.
func (s *StreamSender) Available() int { return int(s.window) }

// Sent accounts for one DATA cell.
func (s *StreamSender) Sent() { s.window-- }

// Unsent reverts a Sent whose cell was not sent.
func (s *StreamSender) Unsent() { s.window++ }

// Sendme accounts for one stream-level SENDME.
func (s *StreamSender) Sendme() error {
	if s.window+streamInc > streamWindow {
		return fault.New(fault.Protocol, "SENDME: opens the stream window beyond %d cells", streamWindow)
	}
	s.window += streamInc
	return nil
}

// StreamReceiver is the receiving half of a stream's window.
type StreamReceiver struct{ window int32 }

// NewStreamReceiver returns a full window of 500 cells.
func NewStreamReceiver() StreamReceiver { return StreamReceiver{streamWindow} }

// Received accounts for one DATA cell. An error is a violation of the protocol:
// the peer sent more than the window allows.
func (r *StreamReceiver) Received() error {
	if r.window == 0 {
		return fault.New(fault.Protocol, "DATA: beyond the stream window of %d cells", streamWindow)
	}
	r.window--
	return nil
}

// Due returns how many stream-level SENDMEs to send now, given the number of
// received bytes that were not read yet, and counts them as sent. Call it after
// every Received and after every read.
func (r *StreamReceiver) Due(unread int) (sendmes int) {
	if unread >= dueBelow {
		return 0
	}
	for ; r.window <= streamWindow-streamInc; sendmes++ {
		r.window += streamInc
	}
	return sendmes
}
