// Package circuit is a circuit as one node sees it: hops, their relay crypto
// and flow control, and the streams on them.
//
// One engine serves clients and relays. A circuit has a home side, where the
// messages it can read come from and where those it writes go, and its hops
// are the parties at the other end of that side:
//
//	client:  hops = guard, middle, exit;  home = the guard's channel
//	relay:   hops = the client;           home = the channel toward the client
//	                                      partner = the channel toward the exit
//	rendezvous point: two circuits without partners are joined
//
// A cell from home that no hop recognises goes to the partner; without one
// that is a violation. A cell from the partner gets one layer and goes home. A cell
// that no hop of a joined circuit recognises gets a layer of the other circuit and
// goes to that circuit's home.
package circuit

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/handshake"
	"github.com/chivenet/chive/internal/panics"
)

// Env is what the circuits of one process share.
type Env struct {
	Log *slog.Logger
	Now func() time.Time
	// Queues bounds the cells that wait at a relay for the next or the previous
	// channel; nil: DefaultQueue either way.
	Queues *QueueLimits
	// Padding bounds what padding machines send; nil: there are none.
	Padding *PaddingLimits

	ahead    handshake.KeyAhead // for a client's next onionskin
	counting atomic.Bool        // see Count

	tellers tellers // of the ends of circuits
}

// QueueLimits are how many cells of a circuit may wait at a relay for the
// channel towards the client (In) and towards the exit (Out); a circuit over
// one is destroyed. They may be changed at any time.
type QueueLimits struct {
	In, Out atomic.Int32
	// Flooded, if not nil, hears from which channel a circuit came that went over Out.
	Flooded func(*channel.Channel)
}

// Bounds of QueueLimits that stand where the consensus says nothing, and C tor's
// least.
const (
	DefaultQueue = 8192
	MinQueue     = 50
)

// NewQueueLimits returns the default ones.
func NewQueueLimits() *QueueLimits {
	q := new(QueueLimits)
	q.In.Store(DefaultQueue)
	q.Out.Store(DefaultQueue)
	return q
}

// limits returns what holds; of nil, the default.
func (q *QueueLimits) limits() (in, out int) {
	if q == nil {
		return DefaultQueue, DefaultQueue
	}
	return int(q.In.Load()), int(q.Out.Load())
}

// Circuit is one circuit. Its methods may be called from any goroutine.
type Circuit struct {
	env    *Env
	handle messageHandler // fromRelay or fromClient
	server *serverSide    // nil at a client

	home    atomic.Pointer[channel.CircuitEnd]
	partner atomic.Pointer[channel.CircuitEnd]
	hops    atomic.Pointer[[]*Hop] // replaced whole under mu
	counts  atomic.Pointer[carried]

	mu sync.Mutex // guards what follows, sealing, and the order on the home queue
	// closing
	closed   atomic.Bool // read without mu by home's reader, too
	roomWait bool        // home's queue was full
	credit   bool        // owned by home's reader: a hop has too little to wake a stream during the batch
	ended    bool        // the last thing of closing
	early    int8        // RELAY_EARLY cells left to send
	cause    error
	done     chan struct{} // made by Done
	onEnd    []func(error)
	pads     *padder // of sending

	// owned by home's reader
	touched []StreamReceiver // streams to wake at the end of a batch
	batchAt time.Time        // see batchTime; zero until asked for
	created chan reply       // the answer to CREATE; nil when none is awaited
	earlyIn int32            // RELAY_EARLY cells that may still come
	drops   int32            // DROP cells that a client has got
}

func newCircuit(env *Env, handle messageHandler) *Circuit {
	c := &Circuit{env: env, handle: handle, early: relayEarlyBudget}
	c.hops.Store(&[]*Hop{})
	return c
}

// circuitCost is what a circuit counts on its account besides what is queued, in
// bytes: the circuit, a hop with its keys and flow control, and what is made of
// them at once. A test of package relay measures it.
const circuitCost = 2200

func (c *Circuit) setHome(home *channel.CircuitEnd) {
	c.home.Store(home)
	home.Account().Reserve(circuitCost)
}

// Account returns the account of what the circuit holds.
func (c *Circuit) Account() *account.Account {
	if home := c.home.Load(); home != nil {
		return home.Account()
	}
	return nil
}

// Hops returns the hops, the nearest first. The slice is not to be changed.
func (c *Circuit) Hops() []*Hop { return *c.hops.Load() }

// Last returns the farthest hop, or nil.
func (c *Circuit) Last() *Hop {
	hops := c.Hops()
	if len(hops) == 0 {
		return nil
	}
	return hops[len(hops)-1]
}

// Channel returns the channel that home is on.
func (c *Circuit) Channel() *channel.Channel { return c.home.Load().Channel() }

// Done is closed when the circuit has closed.
func (c *Circuit) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.ended {
			close(c.done)
		}
	}
	return c.done
}

// over reports whether the circuit has closed.
func (c *Circuit) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// closing reports whether Close was called.
func (c *Circuit) closing() bool {
	return c.closed.Load()
}

// Err returns why the circuit closed, or nil.
func (c *Circuit) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Close destroys the circuit on both sides with a reason for the peers and a
// cause for the streams.
func (c *Circuit) Close(reason cell.DestroyReason, cause error) {
	c.mu.Lock()
	if c.closed.Swap(true) {
		c.mu.Unlock()
		return
	}
	c.cause = cause
	hops, pads := *c.hops.Load(), c.pads
	var wake []*Waiter
	for _, h := range hops {
		wake = append(wake, h.takeWaiters()...)
	}
	c.mu.Unlock()
	// The other legs of a set before the peers hear of it: the far end, when it
	// does, closes them too, and they would seem to have been closed by it.
	// Whatever panics on the way, the rest is closed too.
	each := func(f func()) { panics.Contain(c.env.Log, nil, f)() }
	for _, h := range hops {
		if s := h.set.Load(); s != nil {
			each(func() { s.legClosed(h, cause) })
		}
	}
	if home := c.home.Load(); home != nil {
		each(func() { home.Destroy(reason) })
	}
	if p := c.partner.Load(); p != nil {
		each(func() { p.Destroy(reason) })
	}
	if c.server != nil {
		if o := c.server.joined.Load(); o != nil {
			each(func() {
				o.Close(reason, fault.New(fault.KindOf(cause), "circuit: the other half of the rendezvous closed: %w", cause))
			})
		}
	}
	for _, w := range wake {
		w.Wake()
	}
	if pads != nil {
		pads.close()
	}
	for _, h := range hops {
		h.long.overdue.end()
		h.rekey.overdue.end()
		if h.onion != nil {
			h.onion.overdue.end()
		}
		each(func() { h.closeStreams(cause) })
	}
	c.mu.Lock()
	c.ended = true
	if c.done != nil {
		close(c.done)
	}
	ends := c.onEnd
	c.onEnd = nil
	c.mu.Unlock()
	if c.server != nil {
		c.server.s.disown()
	}
	c.env.tell(ends, cause)
}

// broken reports whether HandleDestroy tells of a panic on the channel's reader.
func broken(reason cell.DestroyReason, err error) bool {
	return reason == cell.DestroyInternal && fault.Is(err, fault.Local)
}

// broke closes the circuit after a panic.
func (c *Circuit) broke(cause error) { c.Close(cell.DestroyInternal, cause) }

// lost closes the circuit, which a relay or the link has ended. A conflux set may go on
// without it.
func (c *Circuit) lost(cause error) {
	for _, h := range c.Hops() {
		if s := h.set.Load(); s != nil {
			s.drop(h)
		}
	}
	c.Close(cell.DestroyNone, cause)
}

// violation destroys the circuit because a peer broke the protocol.
func (c *Circuit) violation(err error) {
	c.Close(cell.DestroyProtocol, fault.New(fault.Protocol, "circuit: %w", err))
}

// addHop appends a hop.
func (c *Circuit) addHop(h *Hop) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := *c.hops.Load()
	h.index = len(old)
	hops := append(old[:len(old):len(old)], h)
	c.hops.Store(&hops)
}

// homeSide receives for the home channel.
type homeSide struct{ c *Circuit }

func (s homeSide) HandleCells(cells []byte) { s.c.fromHome(cells) }

func (s homeSide) HandleBatchEnd() { s.c.endBatch() }

func (s homeSide) HandleControl(cmd cell.Command, body []byte) {
	s.c.fromHomeControl(cmd, body)
}

func (s homeSide) HandleDestroy(reason cell.DestroyReason, err error) {
	if broken(reason, err) {
		s.c.broke(err)
		return
	}
	s.c.lost(err)
}

func (s homeSide) HandleWritable() { s.c.writable() }
