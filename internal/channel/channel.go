// Package channel implements channels to other relays: the TLS connection, the link
// handshake that authenticates the peer, and the goroutines that move cells between
// the connection and the circuits: a reader, and a writer while the peer is slow.
//
//	circuits --Send--> per-circuit queues --scheduler--> writer --one TLS record--> peer
//	circuits <--HandleCells-- reader <--one TLS record-- peer
package channel

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	mrand "math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netaddr"
	"github.com/chivenet/chive/internal/panics"
)

// Config is shared by all channels of a process.
type Config struct {
	Log *slog.Logger
	Now func() time.Time
	// Accept handles a circuit that the peer opens. cmd is CREATE2, CREATE_FAST,
	// LONG_CREATE2, or the obsolete CREATE, which must be refused. body is valid
	// only during the call. It must call SetReceiver or Destroy before it returns,
	// and must not block. If Accept is nil, every circuit is refused.
	Accept func(c *CircuitEnd, cmd cell.Command, body []byte)
	// Opened is called with every new link, under no lock, when Channels has its channel: so
	// whoever closes some of the channels misses none. It must not block and may be nil.
	Opened func(*Link)
	// Tap, for the laboratory, is called with every new link before its channel reads or writes,
	// and may put a connection that watches in the place of Conn. It must not block. It may be nil.
	Tap     func(*Link)
	Watch   func(LinkReport) // hears of the links that this process opens; it must not block
	Stats   *Stats           // may be nil
	Padding *Padding         // link padding, and how long links rest; nil: no padding
	// MayRest reports whether an idle link may rest as long as those between
	// relays do. It must not block. If it is nil, none may.
	MayRest func(*Link) bool
	// Patient lets a link be opened also if those who wait for it have no more time: others who come later have it.
	// A peer that is slow would else never be reached by who waits for less.
	Patient bool
	// Another, if it is not nil, has a relay's addresses tried one after the other as C tor's clients do, IPv4 first, and reports whether
	// the next may be tried after this error: a client that tries two shows a watcher what it is. If it is nil, each is tried while
	// those before it go on.
	Another func(err error) bool
	// Last reports whether a link is the last to be closed when memory is short. It must
	// not block. If it is nil, none is.
	Last func(*Link) bool
	// MaxCircs bounds the circuits of one channel; zero means 65,536.
	MaxCircs int
	// Memory accounts for what peers make the channels and circuits hold; nil means
	// no accounting.
	Memory *account.Memory
}

// Stats counts the traffic of all channels of a process.
type Stats struct {
	CellsIn, CellsOut, BytesIn, BytesOut, RecordsOut atomic.Uint64
}

// Channel is an open link. All methods may be called from any goroutine.
type Channel struct {
	link *Link
	conn net.Conn
	cfg  *Config

	address *account.Account // the peer's address
	account *account.Account // this link; a child of address

	wire    *wire    // the socket below conn, with direct writes; nil if conn has no socket
	manager *Manager // forgets the channel at its end; nil: nobody keeps it
	done    chan struct{}

	mu sync.Mutex // guards what follows
	// circuits and their queues
	circs      map[uint32]*CircuitEnd
	sched      scheduler
	urgent     []byte    // whole cells that go before all others (DESTROY, padding)
	ends       *heldEnds // nil: DESTROY cells are not kept back
	turn       turn      // which goroutine may write
	batch      bool      // the reader is handing out cells
	lets       bool      // other goroutines run before the reader writes
	silent     bool      // nothing more is written
	closed     bool
	cause      error
	emptySince time.Time // when the last circuit closed; zero while one is open
	unanswered time.Time // when the first of what was not answered since lastIn was asked

	running int // goroutines of the channel: the reader (start before it), and the writer while it has the turn

	// owned by the goroutine that has the turn
	begun    *slab     // bytes that wait for more of their record; nil: none do. See writeCut
	grown    int       // how many cells the last record might have, see spaceLocked
	idle     time.Time // since when nothing waits to be written; zero: something does
	writable []*CircuitEnd
	deadline time.Time

	// owned by the reader
	at      int           // bytes of the buffer that the reader has handed out
	busy    *CircuitEnd   // the circuit whose code runs now
	ended   int           // how many of touched were told of the batch's end
	touched []*CircuitEnd // circuits that got cells in this batch
	claimed []*Channel    // channels that the reader must flush
	asked   int           // circuits that the peer asked for since the reader last let other goroutines run
	pending int           // bytes that the reader handed out since it last wrote
	handed  int           // bytes handed out before those, since circuits last passed on what they got
	tail    int           // bytes after the last whole record's worth
	ack     func()
	taken   int   // bytes that came since the socket was empty or others had their turn
	hold    *hold // made when the reader first needs it

	common bool // records have C tor's sizes
	opened time.Time
	luck   float64 // what is random in the time for which it rests, from 0 to 1

	lastOut, lastIn atomic.Int64  // Unix nanoseconds of the last record
	out, in         atomic.Uint64 // bytes of cells so far
	doubt           atomic.Int64  // since when the link is in doubt, see Unanswered; zero: it is not
	pad             *padder
	unsent          *time.Timer // writes what the handshake left; may be nil

	backlog atomic.Int64         // cells that came here and wait on other channels, see holdBack
	held    atomic.Pointer[hold] // the reader waits for fewer of them
}

// maxUrgent bounds the queue of DESTROY and padding cells: the channel closes if a
// peer makes us destroy more circuits than this and does not read.
const maxUrgent = 16384 * cell.Len

// Start makes a channel of an authenticated link, and starts its reader and writer.
func Start(l *Link, cfg *Config) *Channel { return start(l, cfg, nil) }

// start is Start for a channel that m keeps until its end, unless m is nil.
func start(l *Link, cfg *Config, m *Manager) *Channel {
	if cfg.Tap != nil {
		cfg.Tap(l)
	}
	ch := &Channel{
		link:       l,
		manager:    m,
		conn:       l.Conn,
		cfg:        cfg,
		done:       make(chan struct{}),
		circs:      map[uint32]*CircuitEnd{},
		opened:     cfg.Now(),
		emptySince: cfg.Now(),
		luck:       mrand.Float64(),
		common:     l.Common,
		running:    1, // start itself: a writer may come and go before the reader runs, and must not be the last
	}
	ch.address = cfg.Memory.Address(netaddr.Of(l.Conn.RemoteAddr()))
	ch.account = ch.address.Open(account.Link, ch.evict)
	ch.account.Reserve(linkCost + max(0, l.read-usualHandshake))
	ch.account.Rest(true)
	ch.rank()
	if w, ok := l.Conn.NetConn().(*wire); ok {
		w.setDirect(ch.drained, ch.account)
		if cfg.Accept == nil {
			w.poller = new(poller) // a relay has too many links to poll each of them
		}
		ch.wire = w
	}
	if l.Common && l.Initiator && cfg.Accept == nil {
		ch.ends = new(heldEnds)
	}
	ch.ack = quickACK(l.Conn.NetConn())
	ch.lastIn.Store(cfg.Now().UnixNano())
	ch.lastOut.Store(cfg.Now().UnixNano())
	ch.holdUnsent()
	ch.pad = newPadder(ch, cfg.Padding.get())
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.startLocked(false)
	ch.running--
	return ch
}

// startLocked runs the reader, or a writer, which may end and start often: so that takes one
// allocation. The caller holds mu, and the channel is open.
func (ch *Channel) startLocked(writer bool) {
	ch.running++
	go func() {
		defer panics.Recover(ch.cfg.Log, nil)
		defer ch.leave()
		defer panics.Recover(ch.cfg.Log, ch.Close)
		if writer {
			ch.writeLoop()
		} else {
			ch.readLoop()
		}
	}()
}

// leave is the end of a goroutine of the channel. The last one gives back what the channel
// holds: it is closed then, because the reader goes on until it is.
func (ch *Channel) leave() {
	ch.mu.Lock()
	ch.running--
	last := ch.running == 0
	ch.mu.Unlock()
	if !last {
		return
	}
	defer close(ch.done)
	if ch.manager != nil {
		defer ch.manager.forget(ch)
	}
	defer ch.address.Close()
	defer ch.account.Close()
	ch.pad.stop()
	if ch.unsent != nil {
		ch.unsent.Stop()
	}
	ch.dropAll()
}

// Link returns the results of the link handshake.
func (ch *Channel) Link() *Link { return ch.link }

// Peer returns the peer's proven identities; zero for an unauthenticated
// client.
func (ch *Channel) Peer() ident.RelayID { return ch.link.Peer }

// Done is closed when the channel has closed and all its circuits were told.
func (ch *Channel) Done() <-chan struct{} { return ch.done }

// Err returns the cause of the channel's end, or nil while it is open.
func (ch *Channel) Err() error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.cause
}

// Open returns a new circuit with an unused identifier. The memory of the circuit
// counts on account a, which a's owner closes. If a is nil, the circuit gets an
// account of its own, a child of the channel's.
func (ch *Channel) Open(r Receiver, a *account.Account) (*CircuitEnd, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed {
		return nil, fault.New(fault.Network, "open circuit: the channel is closed: %w", ch.cause)
	}
	if err := ch.roomLocked(); err != nil {
		return nil, err
	}
	for range 64 {
		var b [4]byte
		if _, err := rand.Read(b[:]); err != nil {
			return nil, fault.Wrap(fault.Local, err)
		}
		// The initiator's identifiers have the highest bit set (tor-spec,
		// "choosing circuit IDs in CREATE cells").
		id := binary.BigEndian.Uint32(b[:]) &^ (1 << 31)
		if ch.link.Initiator {
			id |= 1 << 31
		}
		if id == 0 || ch.circs[id] != nil || ch.ends.hasLocked(id) {
			continue
		}
		c := ch.addLocked(id, a)
		c.SetReceiver(r)
		return c, nil
	}
	return nil, fault.New(fault.Resource, "open circuit: no identifier is free")
}

func (ch *Channel) roomLocked() error {
	limit := ch.cfg.MaxCircs
	if limit == 0 {
		limit = 1 << 16
	}
	if len(ch.circs) >= limit {
		return fault.New(fault.Resource, "open circuit: the channel has %d circuits", len(ch.circs))
	}
	return nil
}

func (ch *Channel) addLocked(id uint32, a *account.Account) *CircuitEnd {
	c := &CircuitEnd{ch: ch, id: id, heapAt: -1}
	if a == nil {
		a = ch.account.Open(account.Circuit, c.evict)
		c.owns = true
	}
	a.Reserve(circCost)
	c.q.account = a
	ch.circs[id] = c
	if !ch.emptySince.IsZero() {
		ch.restLocked(time.Time{})
	}
	return c
}

// Circuits returns the number of open circuits, and the time since which there is
// none.
func (ch *Channel) Circuits() (n int, emptySince time.Time) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return len(ch.circs), ch.emptySince
}

// sendUrgent queues whole cells, before all others.
func (ch *Channel) sendUrgent(cells []byte) {
	if err := ch.queueUrgent(nil, cells); err != nil {
		ch.Close(err)
	}
}

// queueUrgent is sendUrgent without what follows from an error. of is the circuit that
// must still be open, unless it is nil.
func (ch *Channel) queueUrgent(of *CircuitEnd, cells []byte) error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	switch {
	case of != nil && (of.detached || ch.closed):
		return errDetached()
	case ch.closed, ch.silent:
		return nil
	case len(ch.urgent)+len(cells) > maxUrgent:
		return fault.New(fault.Resource, "channel: the peer does not read, and %d DESTROY cells wait", maxUrgent/cell.Len)
	}
	had := ch.urgentCostLocked()
	ch.urgent = append(ch.urgent, cells...)
	if of != nil && ch.ends != nil { // a circuit's cell, LONG_CREATE2: what was kept back follows
		ch.ends.passedLocked(ch.cfg.Now())
		ch.ends.due = len(ch.ends.all) > 0
	}
	ch.account.Reserve(ch.urgentCostLocked() - had)
	ch.wakeLocked()
	return nil
}

// silence has the channel write nothing more.
func (ch *Channel) silence() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.silent = true
}

// Close closes the channel with a cause, and returns without waiting; wait on Done
// for the end. The goroutines that close the channel tell its circuits. After the
// first call, further causes are ignored.
func (ch *Channel) Close(cause error) {
	ch.closeIdle(cause, time.Time{})
}

// closeIdle is Close, unless there was a circuit since a time; zero: whatever there is.
func (ch *Channel) closeIdle(cause error, since time.Time) {
	ch.mu.Lock()
	if ch.closed || !since.IsZero() && (len(ch.circs) > 0 || !ch.emptySince.Before(since)) {
		ch.mu.Unlock()
		return
	}
	ch.closed = true
	ch.cause = cause
	ch.mu.Unlock()
	// Close abruptly, without TLS's close-notify: it could block if the peer does
	// not read.
	_ = ch.link.Conn.NetConn().SetDeadline(time.Unix(1, 0))
	_ = ch.link.Conn.NetConn().Close()
}

// Shutdown closes the channel and waits until all circuits were told or ctx is done.
func (ch *Channel) Shutdown(ctx context.Context, cause error) error {
	ch.Close(cause)
	select {
	case <-ch.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dropAll tells every circuit that the channel is gone.
func (ch *Channel) dropAll() {
	ch.mu.Lock()
	all := make([]*CircuitEnd, 0, len(ch.circs))
	for _, c := range ch.circs {
		all = append(all, c)
	}
	cause := ch.cause
	ch.mu.Unlock()
	for _, c := range all {
		panics.Contain(ch.cfg.Log, nil, func() {
			if r := c.receiver(); c.detach() && r != nil {
				r.HandleDestroy(cell.DestroyChannelClosed, cause)
			}
		})()
	}
}

// Queued returns how many cells wait on all circuits together.
func (ch *Channel) Queued() int {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	n := 0
	for _, c := range ch.sched.heap {
		n += c.q.n
	}
	return n
}

// RemoteAddr returns the other end's address; zero when there is none, as
// behind a pluggable transport.
func (ch *Channel) RemoteAddr() netip.Addr { return netaddr.Of(ch.conn.RemoteAddr()) }
