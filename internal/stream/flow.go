package stream

import (
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
)

// inFlow is what a stream tells the peer about its reader: stream-level
// SENDMEs on circuits with fixed windows, XOFF and XON on those with congestion
// control. The stream's mu guards it.
type inFlow struct {
	drain    flow.Drain
	window   flow.StreamReceiver
	xon      bool // congestion control: drain is in use, not window
	activity bool // something came since the half-close timer looked
}

func newInFlow(info *circuit.HopInfo) inFlow {
	f := inFlow{xon: info.Congestion}
	if f.xon {
		f.drain = flow.NewDrain(info.Flow, info.Client || info.Onion)
	} else {
		f.window = flow.NewStreamReceiver()
	}
	return f
}

// received accounts for one DATA cell of n bytes that is in the buffer now.
func (f *inFlow) received(s *Stream, n int, now time.Time) error {
	f.activity = true
	if !f.xon {
		if err := f.window.Received(); err != nil {
			return err
		}
		return f.sendmes(s)
	}
	advice, err := f.drain.Received(now, n, s.buf.n)
	if err != nil {
		return err
	}
	return f.follow(s, advice)
}

// silent reports whether the peer must hear no more of what this end has read: it has
// nothing more to send. A peer that has had our END does not know the stream any more,
// and may close the circuit.
func (s *Stream) silent() bool { return s.peerEnded || s.peerHalf || s.endSent }

// consumed accounts for n bytes that were read. An error means that the
// circuit is closed; the reader learns that in another way.
func (f *inFlow) consumed(s *Stream, n int) {
	if f.xon {
		_ = f.follow(s, f.drain.Drained(s.hop.Now(), n, s.buf.n))
	} else {
		_ = f.sendmes(s)
	}
}

func (f *inFlow) sendmes(s *Stream) error {
	if s.silent() {
		return nil
	}
	for range f.window.Due(s.buf.n) {
		if err := s.hop.SendStreamSendme(s.id); err != nil {
			return fault.Except(fault.Closed, err)
		}
	}
	return nil
}

func (f *inFlow) follow(s *Stream, a flow.Advice) error {
	if s.silent() {
		return nil
	}
	switch a {
	case flow.SendXOFF:
		return fault.Except(fault.Closed, s.hop.Send(cell.RelayXoff, s.id, (&cell.Xoff{}).Append(nil)))
	case flow.SendXON:
		m := cell.Xon{KBps: f.drain.Rate()}
		return fault.Except(fault.Closed, s.hop.Send(cell.RelayXon, s.id, m.Append(nil)))
	}
	return nil
}

// outFlow is what the peer's stream-level flow control allows to be sent. The
// stream's mu guards it.
type outFlow struct {
	throttle flow.Throttle
	window   flow.StreamSender
	per      uint16 // bytes that a cell carries
	xon      bool
}

func newOutFlow(info *circuit.HopInfo) outFlow {
	f := outFlow{xon: info.Congestion, per: uint16(info.MaxData)}
	if f.xon {
		f.throttle = flow.NewThrottle(info.Flow, !info.Client || info.Onion)
	} else {
		f.window = flow.NewStreamSender()
	}
	return f
}

func (f *outFlow) sendme() error {
	if f.xon {
		return errWrongFlow("SENDME for a stream")
	}
	return f.window.Sendme()
}

func (f *outFlow) gotXON(now time.Time, kbps uint32) error {
	if !f.xon {
		return errWrongFlow("XON")
	}
	return f.throttle.XON(now, kbps)
}

func (f *outFlow) gotXOFF() error {
	if !f.xon {
		return errWrongFlow("XOFF")
	}
	return f.throttle.XOFF()
}

// limit returns how many cells may be sent now. When a rate allows
// none, wait is the time until it may allow some.
func (f *outFlow) limit(now time.Time) (cells int, wait time.Duration) {
	if !f.xon {
		return f.window.Available(), 0
	}
	bytes, wait := f.throttle.Budget(now)
	if bytes <= 0 {
		return 0, wait
	}
	return bytes/int(f.per) + 1, 0
}

// sent accounts for cells that carry n bytes. It is called before they go out:
// the acknowledgement may come before the sender runs again. unsent
// takes back cells that did not go out.
func (f *outFlow) sent(cells, n int) {
	if f.xon {
		f.throttle.Sent(n)
		return
	}
	for range cells {
		f.window.Sent()
	}
}

func (f *outFlow) unsent(cells, n int) {
	if f.xon {
		f.throttle.Sent(-n)
		return
	}
	for range cells {
		f.window.Unsent()
	}
}
