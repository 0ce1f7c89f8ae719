package flow

import (
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Sender limits the DATA cells that one hop has not acknowledged yet.
type Sender interface {
	// Available returns how many DATA cells may be sent now.
	Available() int
	// Sent accounts for one DATA cell; call it when the cell is sealed. True means
	// that the peer will acknowledge this cell: the caller pushes its layer's Tag
	// to a TagQueue.
	Sent(now time.Time) (recordTag bool)
	// Sendme accounts for one circuit-level SENDME whose tag was checked. blocked
	// says whether this circuit's cells wait for the channel. An error is a
	// violation of the protocol; the caller must close the circuit.
	Sendme(now time.Time, blocked bool) error
	// State returns a snapshot, for metrics and tests.
	State() State
}

// State is a snapshot of a sender.
type State struct {
	Cwnd      int           // window, in cells
	Inflight  int           // cells that are not acknowledged yet
	SlowStart bool          // Vegas has not met congestion yet
	Full      bool          // the window was full recently
	Blocked   bool          // the channel was blocked at the last SENDME
	RTT       time.Duration // smoothed; zero if unknown (always, for fixed windows)
	MinRTT    time.Duration
	MaxRTT    time.Duration
	BDP       int // bandwidth-delay product, in cells
}

// Fixed windows of circuits without congestion control, in cells.
const (
	circWindowMax = 1000
	circWindowInc = 100
)

// windowSender is the fixed window of a circuit without congestion control.
type windowSender struct {
	start, window int
}

// NewWindowSender returns a fixed window that starts at p.CircWindow cells and
// that a SENDME opens by 100.
func NewWindowSender(p *Params) Sender {
	return &windowSender{p.CircWindow, p.CircWindow}
}

func (s *windowSender) Available() int { return s.window }

func (s *windowSender) Sent(time.Time) bool {
	s.window--
	return (s.start-s.window)%circWindowInc == 0 // the receiver counts from the first cell
}

func (s *windowSender) Sendme(time.Time, bool) error {
	if s.window+circWindowInc > circWindowMax {
		return fault.New(fault.Protocol, "SENDME: opens the circuit window beyond %d cells", circWindowMax)
	}
	s.window += circWindowInc
	return nil
}

func (s *windowSender) State() State {
	return State{Cwnd: s.start, Inflight: max(0, s.start-s.window)}
}

// Receiver counts DATA cells from one hop and says when to send a circuit-level
// SENDME. SENDMEs are sent at once, even if no program reads: they control the
// circuit, and streams have limits of their own.
type Receiver struct{ inc, left int32 }

// NewReceiver returns a receiver that acknowledges every incr cells; incr is the
// value from the handshake, or 100 on a circuit without congestion control.
func NewReceiver(incr int) *Receiver { return &Receiver{int32(incr), int32(incr)} }

// Received accounts for one DATA cell; true means that a SENDME must be sent now,
// with the layer's Tag of this cell.
func (r *Receiver) Received() (sendSendme bool) {
	r.left--
	if r.left > 0 {
		return false
	}
	r.left = r.inc
	return true
}

// CircWindowIncrement is the number of cells that a SENDME acknowledges on a
// circuit without congestion control.
const CircWindowIncrement = circWindowInc
