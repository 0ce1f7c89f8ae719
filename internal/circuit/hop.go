package circuit

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/flow"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
)

// Hop is the party at the other end of a relay-crypto layer: a relay, seen
// from a client, or the client, seen from a relay. The last hop of a rendezvous
// circuit is virtual: an onion service, seen from a client, or the other way round.
type Hop struct {
	c      *Circuit
	index  int
	info   HopInfo
	format cell.RelayFormat
	far    cell.Traits // the kind of the far end: cell.ByClient or cell.ByRelay

	// Small fields stand together, whoever owns them: a relay has a hundred thousand hops.

	// awaits is the only message that the hop may send now; zero: there is no such
	// limit. Owned by home's reader, as is onion.
	awaits cell.RelayCommand
	// opened says that the client has asked for a stream or a lookup here, before the hop
	// was a leg of a conflux set; owned by home's reader.
	opened bool

	// makeKeys makes this end's relay crypto from key material.
	makeKeys func(handshake.KeyStream) (hopKeys, error)

	seal sealer // guarded by c.mu
	open opener // owned by home's reader

	// guarded by c.mu
	send    flow.Sender
	tags    flow.TagQueue // the tags that the next SENDMEs must have
	plain   int           // DATA cells in a row, the last ones, without salt
	waiters []*Waiter     // streams that wait for credit, the longest first
	spent   time.Duration // on handshakes, by this end
	ahead   time.Duration // the part of it before the previous hop existed

	// accepts takes the streams that the client at the other end of a rendezvous
	// opens; nil at other hops.
	accepts StreamHandler

	onion *onionKEM     // of a virtual hop; else nil
	recv  flow.Receiver // owned by home's reader
	long  longMessage   // owned by home's reader
	rekey rekeyState
	// linkedAt is when a relay sent CONFLUX_LINKED, or it came to a client; owned by
	// home's reader until LINKED_ACK.
	linkedAt time.Time

	meta replies                    // answers that a goroutine waits for
	set  atomic.Pointer[ConfluxSet] // the conflux set that the hop is a leg of

	smu     sync.Mutex // guards what follows
	streams map[uint16]StreamReceiver
	live    int32 // those of streams that are open on this side
	nextID  uint16
	isLeg   bool // of a conflux set, or about to be: its streams are those of another leg
	ended   bool
	gone    []uint16 // closed by us, the oldest first: their entries are closedStreams
	past    pastStreams
	endErr  error
}

// HopInfo has the negotiated properties of a hop.
type HopInfo struct {
	Target    *linkspec.Target // the relay that a client's hop is; without one, a zero Target. Nil at a relay
	Handshake string           // "create-fast", "ntor", "ntor-v3", "pq768", "hs-ntor", ...
	// PQ is the ML-KEM parameter set that protects the hop, zero for none, and
	// Carriage says how it was negotiated.
	PQ         handshake.PQSet
	Carriage   handshake.Carriage
	Congestion bool // congestion control (proposal 324), else fixed windows
	Client     bool // this end is the client, not the relay or the onion service
	Onion      bool // the hop is virtual: the other end of a rendezvous
	HalfClose  bool // the far end takes HALF_CLOSE on streams that this client opens
	KH         [20]byte
	Layer      string       // "tor1", "cgo"
	SendmeInc  int          // DATA cells that one SENDME acknowledges
	Flow       *flow.Params // the consensus's parameters at that time
	MaxData    int          // bytes of data that a cell carries
}

// relay is the identity of the relay that a client's hop is; zero at a relay.
func (i *HopInfo) relay() ident.RelayID {
	if i.Target == nil {
		return ident.RelayID{}
	}
	return i.Target.RelayID
}

// Info returns the negotiated properties; the caller must not change them.
func (h *Hop) Info() *HopInfo { return &h.info }

// PostQuantum returns the protection of the hop against a later quantum computer;
// the zero set means none.
func (h *Hop) PostQuantum() (handshake.PQSet, handshake.Carriage) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	return h.info.PQ, h.info.Carriage
}

// HandshakeTime returns how long a client computed for the hop's handshake and
// rekeys: its own part, without waiting.
func (h *Hop) HandshakeTime() time.Duration {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	return h.spent
}

// HandshakeAhead returns the part of HandshakeTime that came before the previous
// hop existed: Build makes an onionskin while it waits for an answer.
func (h *Hop) HandshakeAhead() time.Duration { return h.ahead }

// Now returns the time.
func (h *Hop) Now() time.Time { return h.c.env.Now() }

// Index returns the hop's place on the circuit; 0 is the nearest.
func (h *Hop) Index() int { return h.index }

// Circuit returns the hop's circuit.
func (h *Hop) Circuit() *Circuit { return h.c }

// StreamReceiver receives the messages of one stream. Its methods run on the
// channel's reader and must not block.
type StreamReceiver interface {
	// HandleMessage handles one message, which came at the given time or shortly
	// before; m.Data is valid during the call only. An error is a violation: the
	// circuit is destroyed.
	HandleMessage(m cell.RelayMsg, now time.Time) error
	// Flush is called after the last message of a batch: it wakes waiting
	// goroutines. It may follow HandleCircuitClose.
	Flush()
	// HandleCircuitClose is called once, last, unless the stream was removed.
	HandleCircuitClose(cause error)
}

// maxStreams bounds the streams on one hop, half-closed ones included.
const maxStreams = 32768

// OpenStream registers a stream under a new identifier; bind makes its receiver,
// which must not call back into the hop.
func (h *Hop) OpenStream(bind func(id uint16) StreamReceiver) error {
	h.smu.Lock()
	defer h.smu.Unlock()
	if h.ended {
		return fault.New(fault.Closed, "open stream: the circuit is closed: %w", h.endErr)
	}
	if h.isLeg {
		return fault.New(fault.Local, "open stream: the circuit is a leg of a conflux set, or is being linked")
	}
	if h.streams == nil {
		h.streams = map[uint16]StreamReceiver{}
		h.nextID = uint16(rand.Uint32())
	}
	if len(h.streams) >= maxStreams {
		return fault.New(fault.Resource, "open stream: the circuit has %d streams", len(h.streams))
	}
	for {
		h.nextID++
		if _, used := h.streams[h.nextID]; h.nextID != 0 && !used {
			h.past.remove(h.nextID)
			h.streams[h.nextID] = bind(h.nextID)
			h.live++
			return nil
		}
	}
}

// AcceptStream registers r under an identifier that the peer chose.
func (h *Hop) AcceptStream(id uint16, r StreamReceiver) error {
	h.smu.Lock()
	defer h.smu.Unlock()
	if h.ended {
		return fault.New(fault.Closed, "accept stream: the circuit is closed: %w", h.endErr)
	}
	if h.streams == nil {
		h.streams = map[uint16]StreamReceiver{}
	}
	if c, ok := h.streams[id].(*closedStream); ok && c.refused {
		h.forgetLocked(id)
	}
	if _, used := h.streams[id]; used || id == 0 {
		return fault.New(fault.Protocol, "stream identifier %d is in use", id)
	}
	if len(h.streams) >= maxStreams {
		return fault.New(fault.Resource, "accept stream: the circuit has %d streams", len(h.streams))
	}
	h.past.remove(id)
	h.streams[id] = r
	h.live++
	return nil
}

// RemoveStream forgets a stream. peerEnded says that the peer's END came:
// otherwise later messages for it are dropped, up to a bound.
func (h *Hop) RemoveStream(id uint16, peerEnded bool) {
	h.smu.Lock()
	defer h.smu.Unlock()
	if h.ended {
		return
	}
	if peerEnded {
		h.forgetLocked(id) // closed here at the same moment
		h.past.remove(id)
	}
	old := h.streams[id]
	if old == nil || isClosedStream(old) {
		return // it was removed before
	}
	h.live--
	if peerEnded {
		delete(h.streams, id)
		return
	}
	h.closedLocked(&closedStream{h: h, id: id, allowed: maxAfterClose})
}

// RefuseStream answers a message that opens a stream with END. What the peer sends
// before it hears that, such as early data, is dropped.
func (h *Hop) RefuseStream(id uint16, e cell.End) error {
	h.noteRefused(id)
	return fault.Except(fault.Closed, h.Send(cell.RelayEnd, id, e.Append(nil)))
}

// Streams returns the number of streams that are open on this side.
func (h *Hop) Streams() int {
	h.smu.Lock()
	defer h.smu.Unlock()
	return int(h.live)
}

// EndStreams ends the streams that are open, with a reason for the peer. The circuit goes on.
func (h *Hop) EndStreams(reason cell.EndReason) {
	for _, s := range h.receivers() {
		if s, ok := s.(interface{ CloseReason(cell.EndReason) error }); ok {
			_ = s.CloseReason(reason) // it fails only where nobody is left to be told
		}
	}
}

func (h *Hop) receivers() []StreamReceiver {
	h.smu.Lock()
	defer h.smu.Unlock()
	return slices.Collect(maps.Values(h.streams))
}

func (h *Hop) stream(id uint16) StreamReceiver {
	h.smu.Lock()
	defer h.smu.Unlock()
	return h.streams[id]
}

func (h *Hop) closeStreams(cause error) {
	h.smu.Lock()
	all := h.streams
	h.streams, h.live, h.ended, h.endErr = nil, 0, true, cause
	h.smu.Unlock()
	for _, s := range all {
		s.HandleCircuitClose(cause)
	}
	h.meta.fail(cause)
}
