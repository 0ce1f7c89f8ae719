package flow

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// Streams on circuits with congestion control have no windows. The receiver sends
// XOFF when its buffer is too full, and XON, with its drain rate, when the sender
// may continue (proposal 324, section 4).

const (
	// Parameters count cells; these are the bytes of data in one cell: the
	// smallest number for limits on the peer, the largest for limits that we keep.
	cellDataMin = 488
	cellDataMax = 498

	// xoffGrace is how long a buffer may be above its limit before XOFF: a reader
	// that is about to run may empty it. C tor waits as long.
	xoffGrace = 5 * time.Millisecond

	// burst is how many cells of data may wait before the buffer counts as
	// draining too slowly, if no read has measured the rate.
	burst = 32
)

// Advice is the message that a Drain wants to send to the peer.
type Advice uint8

// The messages.
const (
	SendNothing Advice = iota
	SendXOFF
	SendXON // with Drain.Rate
)

// Drain watches the buffer of received data of one stream and decides when to
// send XOFF and XON.
type Drain struct {
	p          *Params
	graceStart moment // zero: not above the limit
	start      moment // of the measurement; zero: none
	drained    int32  // bytes since start; at most math.MaxInt32 are counted
	prev       int32  // bytes of the last measurement
	sinceXoff  int32  // bytes that arrived after XOFF
	rate       uint32 // smoothed, kilobytes (1000 bytes) per second
	sentRate   uint32
	client     bool // this end is a client or an onion service
	xoff       bool
}

// moment is a time in nanoseconds since the first one of the process, but 1 where that is
// 0. Every stream has some, and a time.Time takes three times as much memory.
type moment int64

var first atomic.Pointer[time.Time]

func momentOf(t time.Time) moment {
	since := first.Load()
	if since == nil {
		made := t // only here, so that t stays on the stack elsewhere
		first.CompareAndSwap(nil, &made)
		since = first.Load()
	}
	if m := moment(t.Sub(*since)); m != 0 {
		return m
	}
	return 1
}

// to returns the time from m until now.
func (m moment) to(now moment) time.Duration { return time.Duration(now - m) }

// NewDrain returns the Drain of one stream. client is true if this end is a client
// or an onion service, and false for an exit.
// p must not change after that.
func NewDrain(p *Params, client bool) Drain { return Drain{p: p, client: client} }

// limit returns how many bytes may be in the buffer.
func (d *Drain) limit() int { return d.p.xoff(d.client) * cellDataMin }

// every returns how many bytes are read between two measurements.
func (d *Drain) every() int { return d.p.XonRate * cellDataMax }

// overrun returns how many bytes may come after XOFF. When XOFF is sent, one window of the
// peer's cells can still be on its way; with conflux, one on each leg, and cells that
// waited for their turn. Three times the largest window of slow start is more than enough.
func (d *Drain) overrun() int { return 3 * min(d.p.SSMax, 20000) * cellDataMax }

// xoff returns the limit of a client's or an onion service's buffer, or of an exit's, in
// cells.
func (p *Params) xoff(client bool) int {
	if client {
		return p.XoffClient
	}
	return p.XoffExit
}

// Rate returns the drain rate that an XON carries, in kilobytes (1000 bytes) per
// second; zero means no limit.
func (d *Drain) Rate() uint32 { return d.rate }

// Call Received for n bytes from the peer; buffered is the number of bytes in the
// buffer now. An error is a violation of the protocol: the peer continues long
// after XOFF.
func (d *Drain) Received(now time.Time, n, buffered int) (Advice, error) {
	if d.xoff {
		if d.sinceXoff += int32(n); int(d.sinceXoff) > d.overrun() {
			return SendNothing, fault.New(fault.Protocol, "DATA: %d bytes after XOFF", d.sinceXoff)
		}
	}
	switch {
	case buffered <= d.limit():
		d.graceStart = 0
	case d.xoff:
	case d.graceStart == 0:
		d.graceStart = momentOf(now)
	case d.graceStart.to(momentOf(now)) > xoffGrace:
		d.graceStart = 0
		d.xoff, d.sinceXoff = true, 0
		d.rate = 0 // the rate was wrong, or the buffer would not be full
		return SendXOFF, nil
	}
	if buffered > burst*cellDataMin {
		return d.Drained(now, 0, buffered), nil
	}
	return SendNothing, nil
}

// Call Drained for n bytes that were read from the buffer; buffered is the number
// of bytes that are left. After SendXON, Drain assumes that the peer knows Rate.
func (d *Drain) Drained(now time.Time, n, buffered int) Advice {
	d.drained = int32(min(math.MaxInt32, int64(d.drained)+int64(n)))
	if d.start == 0 && buffered > 0 {
		d.start, d.drained = momentOf(now), 0
	}
	if d.start != 0 && int(d.drained) > d.every() {
		d.measure(d.start.to(momentOf(now)))
	}
	advice := SendNothing
	if d.xoff && buffered == 0 || !d.xoff && d.changed() {
		d.xoff = false
		d.sentRate = d.rate
		advice = SendXON
	}
	if buffered == 0 {
		d.start = 0
		// An empty queue does not show how fast it could drain, so let the peer
		// try twice the rate.
		if int(d.drained) >= d.every() && d.sentRate != 0 {
			d.rate = uint32(min(math.MaxInt32, 2*uint64(d.rate)))
			d.prev, d.drained = d.drained, 0
		}
	}
	return advice
}

// measure updates the rate. took is the time during which the queue has been
// draining.
func (d *Drain) measure(took time.Duration) {
	us := uint64(max(0, took.Microseconds()))
	if us == 0 {
		return
	}
	if d.prev == 0 {
		d.prev = d.drained
	}
	kb := min(math.MaxInt32, max(1, uint64(d.prev)*1000/us))
	d.prev = d.drained
	d.rate = uint32(ewma(kb, uint64(d.rate), d.p.XonEWMACnt))
	d.drained, d.start = 0, 0
}

// changed reports whether the rate changed enough since the last XON.
func (d *Drain) changed() bool {
	sent, rate, pct := uint64(d.sentRate), uint64(d.rate), uint64(d.p.XonChangePct)
	return sent != 0 && (rate > (100+pct)*sent/100 || rate < (100-pct)*sent/100)
}

// Throttle is the sending half: it obeys the peer's XOFF and XON.
type Throttle struct {
	p          *Params
	refill     moment
	sent       uint64 // bytes
	tokens     int    // bytes
	rate       int32  // bytes per second; zero: no limit
	xoffs      uint32
	xons       uint32 // advisory ones
	peerClient bool   // the peer is a client or an onion service
	off        bool
}

// NewThrottle returns the Throttle of a stream that may send. peerClient is true
// if the peer is a client or an onion service, and false for an exit. p must not change
// after that.
//
// The limits on the peer are half as strict as the consensus says: the peer may
// have another consensus, and its count of a cell's bytes differs by two percent.
func NewThrottle(p *Params, peerClient bool) Throttle {
	return Throttle{p: p, peerClient: peerClient}
}

// perXoff returns how many bytes must be sent for each XOFF.
func (t *Throttle) perXoff() uint64 { return uint64(t.p.xoff(t.peerClient)) * cellDataMin / 2 }

// perXon returns how many bytes must be sent for each advisory XON.
func (t *Throttle) perXon() uint64 {
	return uint64(min(t.p.xoff(t.peerClient), t.p.XonRate)) * cellDataMin / 2
}

// XOFF stops the stream. An error is a violation of the protocol: two in a row, or
// more than the bytes that were sent can have caused, which could be a signal to
// an observer (proposal 324, section 4.1).
func (t *Throttle) XOFF() error {
	if t.off {
		return fault.New(fault.Protocol, "XOFF: the stream is stopped already")
	}
	t.xoffs++
	if t.sent < t.perXoff()*uint64(t.xoffs) {
		return fault.New(fault.Protocol, "XOFF: %d XOFFs after only %d bytes", t.xoffs, t.sent)
	}
	t.off = true
	return nil
}

// XON starts the stream again. An advisory XON, without an XOFF before it, changes
// the rate. kbps is in kilobytes (1000 bytes) per second; zero means no limit. An
// error is a violation of the protocol: more advisory XONs than the bytes that
// were sent can have caused. The XON after an XOFF is always allowed.
func (t *Throttle) XON(now time.Time, kbps uint32) error {
	if !t.off {
		t.xons++
		if t.sent < t.perXon()*uint64(t.xons) {
			return fault.New(fault.Protocol, "XON: %d advisory XONs after only %d bytes", t.xons, t.sent)
		}
	}
	t.off = false
	t.rate = int32(min(uint64(kbps)*1000, math.MaxInt32))
	if t.rate == math.MaxInt32 {
		t.rate = 0
	}
	t.tokens, t.refill = int(t.rate), momentOf(now) // tokens for one second at once, like C tor's bucket
	return nil
}

// Budget returns how many bytes may be sent now. If it is zero, wait is the time
// until there are bytes for one cell, or zero if only an XON can help.
func (t *Throttle) Budget(now time.Time) (bytes int, wait time.Duration) {
	if t.off {
		return 0, 0
	}
	if t.rate == 0 {
		return math.MaxInt, 0
	}
	t.fill(now)
	if t.tokens > 0 {
		return t.tokens, 0
	}
	short := min(cellDataMax, int(t.rate)) - t.tokens
	return 0, time.Duration(float64(short) / float64(t.rate) * float64(time.Second))
}

// fill adds the tokens of the time that passed, at most those of one second.
func (t *Throttle) fill(now time.Time) {
	m := momentOf(now)
	if d := t.refill.to(m); d >= time.Second {
		t.tokens, t.refill = int(t.rate), m
	} else if add := int(d.Seconds() * float64(t.rate)); add > 0 {
		t.tokens, t.refill = min(int(t.rate), t.tokens+add), m
	}
}

// Sent accounts for n bytes of data; a negative n reverts bytes that were not
// sent.
func (t *Throttle) Sent(n int) {
	t.sent += uint64(n)
	if t.rate != 0 {
		t.tokens -= n
	}
}
