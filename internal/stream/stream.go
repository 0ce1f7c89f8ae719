// Package stream is a TCP-like stream over a circuit, as a net.Conn: BEGIN,
// DATA, END, per-stream flow control, name lookups, and the directory stream.
package stream

import (
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/circuit"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/netaddr"
)

// Stream is one stream. It implements net.Conn, CloseWrite, io.WriterTo and
// io.ReaderFrom.
type Stream struct {
	hop     *circuit.Hop
	account *account.Account // of what the peer makes us hold; closed with the stream
	host    string           // of the end that did not open it, or its name if port is 0

	readWake  circuit.Waiter // the buffer or the state changed
	writeWake circuit.Waiter
	limits    atomic.Pointer[deadlines] // nil: nobody has waited, and none was ever set
	ended     atomic.Bool               // nothing more can be sent
	id        uint16
	port      uint16

	wmu sync.Mutex // one writer at a time

	sinkMu sync.Mutex // held to take from buf for sink; WriteTo holds it except when it waits
	sink   *sink      // what WriteTo writes to, or the connection that the stream is joined to

	pump atomic.Pointer[pump] // set by Join

	mu sync.Mutex // guards the fields below
	// receiving
	buf buffer
	in  inFlow
	// sending
	out outFlow
	// states
	ending      *ending // nil while neither direction has begun to end
	accepted    bool    // a client opened it; else this end did; never changes
	dirty       bool    // something changed since the last Flush
	connected   bool
	closed      bool // Close was called
	halves      bool // both ends take HALF_CLOSE
	halfSent    bool
	peerHalf    bool           // it has come
	writeClosed bool           // CloseWrite was called; without halves END is still to be sent
	sending     bool           // a writer has claimed credit, and its cells are on their way to the circuit
	endDue      cell.EndReason // of an END that waits for them; 0: none
	endSent     bool
	peerEnded   bool
	noCircuit   bool          // the circuit has closed
	opened      chan struct{} // closed by CONNECTED, END, or the circuit's end; nil: of an accepted stream, and nobody waits
	addr        *netip.Addr   // where the exit says that it connected to; nil: it does not say
	read, wrote uint64        // bytes that came and that were sent
}

// ending is what only a stream has that begins to end: most streams are silent for most
// of their time, and there are many of them.
type ending struct {
	readErr  error       // what Read returns after the buffer: io.EOF or a cause
	writeErr error       // of a stream that did not open, also why
	linger   *time.Timer // what CloseWrite, or HALF_CLOSE, waits for
	moved    uint64      // bytes both ways when linger was set, of a stream that is half closed
}

func (s *Stream) makeEndingLocked() *ending {
	if s.ending == nil {
		s.ending = new(ending)
	}
	return s.ending
}

func (s *Stream) readErrLocked() error {
	if s.ending == nil {
		return nil
	}
	return s.ending.readErr
}

func (s *Stream) writeErrLocked() error {
	if s.ending == nil {
		return nil
	}
	return s.ending.writeErr
}

// Addr is a stream's end as its user named it. Logs do not show it.
type Addr struct{ Host string }

// Network returns "tor".
func (Addr) Network() string { return "tor" }

// String returns the host and port as they were asked for.
func (a Addr) String() string { return a.Host }

// streamCost is what a stream counts on its account besides its buffers, in
// bytes. A test of package relay measures it.
const streamCost = 1 << 10

func newStream(h *circuit.Hop, host string, port uint16) *Stream {
	a := h.Circuit().Account().Open(account.Stream, nil)
	a.Reserve(streamCost)
	return &Stream{
		hop:     h,
		account: a,
		host:    host,
		port:    port,
		in:      newInFlow(h.Info()),
		out:     newOutFlow(h.Info()),
	}
}

// EndError is the peer's END before or after the stream was open.
type EndError struct {
	Reason cell.EndReason
	Addr   netip.Addr // for EndExitPolicy: what the host name resolved to
	Lookup bool       // it ended a RESOLVE, for which RESOLVED says that there is no such host
}

// Error does not name the peer: it may be an exit, an onion service or a directory cache.
func (e *EndError) Error() string { return "the other end ended the stream: " + e.Reason.String() }

// HandleMessage implements circuit.StreamReceiver.
func (s *Stream) HandleMessage(m cell.RelayMsg, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		// It was closed while this message was under way.
		if m.Cmd == cell.RelayEnd {
			s.hop.RemoveStream(s.id, true)
		}
		return nil
	}
	switch m.Cmd {
	case cell.RelayData:
		return s.dataLocked(m.Data, now)
	case cell.RelayConnected:
		return s.connectedLocked(m.Data)
	case cell.RelayHalfClose:
		return s.peerHalfLocked()
	case cell.RelayEnd:
		s.endLocked(cell.ParseEnd(m.Data))
		return nil
	case cell.RelaySendme:
		if err := s.out.sendme(); err != nil {
			return err
		}
	case cell.RelayXon:
		x, err := cell.ParseXon(m.Data)
		if err != nil {
			return err
		}
		if err := s.out.gotXON(s.hop.Now(), x.KBps); err != nil {
			return err
		}
	case cell.RelayXoff:
		if _, err := cell.ParseXoff(m.Data); err != nil {
			return err
		}
		return s.out.gotXOFF()
	default:
		return fault.New(fault.Protocol, "unexpected %v on a stream", m.Cmd)
	}
	s.wakeWriter()
	return nil
}

func (s *Stream) dataLocked(p []byte, now time.Time) error {
	if !s.connected {
		return fault.New(fault.Protocol, "DATA on a stream that is not open")
	}
	if s.peerEnded || s.peerHalf {
		return fault.New(fault.Protocol, "DATA after the end of it")
	}
	if s.readErrLocked() != nil {
		return nil
	}
	s.buf.write(p, s.account)
	s.read += uint64(len(p))
	s.dirty = true
	return s.in.received(s, len(p), now)
}

func (s *Stream) connectedLocked(body []byte) error {
	if s.connected || s.peerEnded {
		return fault.New(fault.Protocol, "CONNECTED on a stream that is open")
	}
	m, err := cell.ParseConnected(body)
	if err != nil {
		return err
	}
	s.connected = true
	if addr := netaddr.Plain(m.Addr); addr.IsValid() {
		s.addr = &addr
	}
	s.openedLocked()
	return nil
}

// isOpen is the closed channel of all streams that were opened.
var isOpen = make(chan struct{})

func init() { close(isOpen) }

func (s *Stream) openedLocked() {
	close(s.opened)
	s.opened = isOpen
}

func (s *Stream) endLocked(m cell.End) {
	s.peerEnded = true
	err := fault.New(endKind(m.Reason), "%w", &EndError{Reason: m.Reason, Addr: netaddr.Plain(m.Addr)})
	cause := err
	if ordinary(m.Reason, s.hop.Info(), s.connected) {
		cause = io.EOF
	}
	if s.writeClosed && s.connected {
		s.sendEndLocked(cell.EndDone) // a peer that lingers, too, waits for it
	}
	s.finishLocked(cause, err)
	s.hop.RemoveStream(s.id, true)
}

// ordinary reports whether an END is no more than the end of the data. Arti, at either end
// of a rendezvous, gives the reason MISC for every stream that ends (version 2.7).
func ordinary(r cell.EndReason, h *circuit.HopInfo, open bool) bool {
	return r == cell.EndDone || r == cell.EndMisc && h.Onion && open
}

// finishLocked ends both directions: reads see what is buffered and then
// readErr.
func (s *Stream) finishLocked(readErr, writeErr error) {
	e := s.makeEndingLocked()
	if e.readErr == nil {
		e.readErr = readErr
	}
	if e.writeErr == nil {
		e.writeErr = writeErr
		s.ended.Store(true)
		if s.opened != nil && s.opened != isOpen {
			s.openedLocked()
		}
	}
	if e.linger != nil {
		e.linger.Stop()
	}
	if j := s.pump.Load(); j != nil {
		j.hurry()
	}
	s.dirty = true
	s.wakeReader()
	s.wakeWriter()
}

// endKind classifies END reasons for the caller.
func endKind(r cell.EndReason) fault.Kind {
	switch r {
	case cell.EndExitPolicy, cell.EndHibernating:
		return fault.Refused
	case cell.EndTimeout:
		return fault.Timeout
	case cell.EndTorProtocol:
		return fault.Protocol
	case cell.EndResourceLimit:
		return fault.Resource
	}
	return fault.Network
}

// Flush implements circuit.StreamReceiver.
func (s *Stream) Flush() {
	s.mu.Lock()
	d := s.dirty
	s.dirty = false
	s.mu.Unlock()
	if d && !s.deliver() {
		s.wakeReader()
	}
}

// HandleCircuitClose implements circuit.StreamReceiver.
func (s *Stream) HandleCircuitClose(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := fault.New(max(fault.KindOf(cause), fault.Network), "stream: the circuit closed: %w", cause)
	s.peerEnded, s.endSent, s.noCircuit = true, true, true
	s.finishLocked(err, err)
}

func (s *Stream) circuitClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.noCircuit
}

func (s *Stream) wakeReader() {
	if j := s.pump.Load(); j != nil {
		j.streamChanged()
		return
	}
	s.readWake.Wake()
}

func (s *Stream) wakeWriter() {
	s.writeWake.Wake()
}

// LocalAddr returns a name, not an address: only the exit knows its address.
func (s *Stream) LocalAddr() net.Addr {
	if s.accepted {
		return s.named()
	}
	return Addr{"client"}
}

func (s *Stream) named() Addr {
	if s.port == 0 {
		return Addr{s.host}
	}
	return Addr{net.JoinHostPort(s.host, strconv.Itoa(int(s.port)))}
}

// RemoteAddr returns the host and port that were asked for.
func (s *Stream) RemoteAddr() net.Addr {
	if s.accepted {
		return Addr{"client"}
	}
	return s.named()
}

// ExitAddr returns the address that the exit says it connected to; invalid
// when it does not say.
func (s *Stream) ExitAddr() netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.addr == nil {
		return netip.Addr{}
	}
	return *s.addr
}

// Bytes returns how many bytes came and how many were sent.
func (s *Stream) Bytes() (read, written uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read, s.wrote
}

// Hop returns the hop that the stream ends at.
func (s *Stream) Hop() *circuit.Hop { return s.hop }

// SetDeadline implements net.Conn.
func (s *Stream) SetDeadline(t time.Time) error {
	_ = s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (s *Stream) SetReadDeadline(t time.Time) error {
	if d := s.deadlinesFor(t); d != nil {
		d.read.set(t)
	}
	return nil
}

// SetWriteDeadline implements net.Conn.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	if d := s.deadlinesFor(t); d != nil {
		d.write.set(t)
	}
	return nil
}

var (
	errDeadline = fault.Wrap(fault.Timeout, os.ErrDeadlineExceeded)
	errClosed   = fault.Wrap(fault.Closed, net.ErrClosed)
)

func errWrongFlow(what string) error {
	return fault.New(fault.Protocol, "%s does not belong to the flow control that was negotiated", what)
}

// Account returns the account of what the stream holds; it closes with the
// stream.
func (s *Stream) Account() *account.Account { return s.account }

// ID returns the stream identifier.
func (s *Stream) ID() uint16 { return s.id }
