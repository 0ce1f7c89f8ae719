// Package channel is a link to another relay: the TLS connection, the link
// handshake that says who is at the other end, and the two goroutines that
// move cells between it and the circuits.
//
//	circuits --Send--> per-circuit queues --scheduler--> writer --one TLS record--> peer
//	circuits <--HandleCells-- reader <--one TLS record-- peer
package channel

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/account"
	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/panics"
)

// Config is what all channels of one process share.
type Config struct {
	Log *slog.Logger
	Now func() time.Time
	// Accept takes a circuit that the peer opens: cmd is CREATE2 or
	// CREATE_FAST, LONG_CREATE2, or the obsolete CREATE, to refuse; body is valid
	// during the call. It must call SetReceiver or Destroy before it returns,
	// and must not block. Nil refuses all.
	Accept func(c *Circ, cmd cell.Command, body []byte)
	// Opened is called with every new link; it must not block. May be nil.
	Opened  func(*Link)
	Stats   *Stats   // may be nil
	Padding *Padding // link padding; nil: none
	// MaxCircs bounds the circuits of one channel; zero means 65,536.
	MaxCircs int
	// Memory counts what peers make the channels and circuits hold; nil: nobody
	// does.
	Memory *account.Memory
}

// Stats counts what passed all channels of a process.
type Stats struct {
	CellsIn, CellsOut, BytesIn, BytesOut, RecordsOut atomic.Uint64
}

// Channel is an open link. All methods may be called from any goroutine.
type Channel struct {
	link *Link
	conn net.Conn
	cfg  *Config

	address *account.Account // of the peer's address
	account *account.Account // of the link, below it

	wire *wire      // below conn, with direct writes; nil when it has none
	cond *sync.Cond // the writer waits on it; its lock is mu
	done chan struct{}

	mu sync.Mutex // guards what follows
	// circuits and their queues
	circs      map[uint32]*Circ
	sched      scheduler
	urgent     []byte // whole cells that go before all others (DESTROY, padding)
	turn       turn   // who may write
	batch      bool   // the reader hands out what it read
	closed     bool
	cause      error
	emptySince time.Time // since when no circuit is open; zero while one is

	// owned by who has the turn
	record   []byte
	writable []*Circ
	deadline time.Time

	// owned by the reader
	at      int        // bytes of the buffer that were handed out
	busy    *Circ      // whose code runs
	ended   int        // of touched, those that know of the batch's end
	touched []*Circ    // circuits that got cells in this batch
	claimed []*Channel // channels that it is to flush
	asked   int        // circuits that were asked for since it last let others run
	pending int        // bytes that it handed out since it last wrote
	handed  int        // bytes before those, since circuits handed on what they got
	tail    int        // bytes beyond the last whole record's worth
	ack     func()

	lastOut, lastIn atomic.Int64 // Unix nanoseconds of the last record
	pad             *padder
}

// maxUrgent bounds the queue of DESTROY and padding cells: a peer that makes
// us destroy more circuits than this without reading is cut off.
const maxUrgent = 16384 * cell.Len

// Start takes over an authenticated link and starts its reader and writer.
func Start(l *Link, cfg *Config) *Channel {
	ch := &Channel{
		link:       l,
		conn:       l.Conn,
		cfg:        cfg,
		done:       make(chan struct{}),
		circs:      map[uint32]*Circ{},
		emptySince: cfg.Now(),
	}
	ch.address = cfg.Memory.Address(remoteAddr(l.Conn.RemoteAddr()))
	ch.account = ch.address.Open(account.Link, ch.evict)
	ch.account.Reserve(linkCost)
	ch.cond = sync.NewCond(&ch.mu)
	ch.record = make([]byte, recordCells*cell.Len)
	if w, ok := l.Conn.NetConn().(*wire); ok {
		w.setDirect(ch.drained, ch.account)
		if cfg.Accept == nil {
			w.poller = new(poller) // a relay has too many links to ask them all
		}
		ch.wire = w
	}
	ch.ack = quickACK(l.Conn.NetConn())
	ch.lastIn.Store(cfg.Now().UnixNano())
	ch.lastOut.Store(cfg.Now().UnixNano())
	ch.pad = newPadder(ch, cfg.Padding.get())
	var wg sync.WaitGroup
	wg.Go(panics.Contain(cfg.Log, ch.Close, ch.readLoop))
	wg.Go(panics.Contain(cfg.Log, ch.Close, ch.writeLoop))
	go func() {
		defer panics.Recover(cfg.Log, nil)
		defer close(ch.done)
		defer ch.address.Close()
		defer ch.account.Close()
		wg.Wait()
		ch.pad.stop()
		ch.dropAll()
	}()
	return ch
}

// Link returns what the handshake learned of the peer.
func (ch *Channel) Link() *Link { return ch.link }

// Peer returns the peer's proven identities; zero for an unauthenticated
// client.
func (ch *Channel) Peer() ident.RelayID { return ch.link.Peer }

// Done is closed when the channel has closed and all its circuits know.
func (ch *Channel) Done() <-chan struct{} { return ch.done }

// Err returns why the channel closed, or nil while it is open.
func (ch *Channel) Err() error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.cause
}

// Open returns a new circuit with an unused identifier. What it holds counts on
// the given account, which its owner closes; nil: on one of its own, below the
// channel's.
func (ch *Channel) Open(r Receiver, a *account.Account) (*Circ, error) {
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
		if id == 0 || ch.circs[id] != nil {
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

func (ch *Channel) addLocked(id uint32, a *account.Account) *Circ {
	c := &Circ{ch: ch, id: id, heapAt: -1}
	if a == nil {
		a = ch.account.Open(account.Circuit, c.evict)
		c.owns = true
	}
	a.Reserve(circCost)
	c.q.account = a
	ch.circs[id] = c
	ch.emptySince = time.Time{}
	return c
}

// Circuits returns the number of open circuits, and since when there is none.
func (ch *Channel) Circuits() (n int, emptySince time.Time) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return len(ch.circs), ch.emptySince
}

// sendUrgent queues whole cells before everything else.
func (ch *Channel) sendUrgent(cells []byte) {
	if err := ch.queueUrgent(cells); err != nil {
		ch.Close(err)
	}
}

func (ch *Channel) queueUrgent(cells []byte) error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	switch {
	case ch.closed:
		return nil
	case len(ch.urgent)+len(cells) > maxUrgent:
		return fault.New(fault.Resource, "channel: the peer does not read: %d DESTROY cells wait", maxUrgent/cell.Len)
	}
	ch.urgent = append(ch.urgent, cells...)
	ch.account.Reserve(len(cells))
	ch.wakeLocked()
	return nil
}

// Close closes the channel with a cause; circuits learn of it from the
// closing goroutines. It does not wait (Done does). The first cause stays.
func (ch *Channel) Close(cause error) {
	ch.mu.Lock()
	if ch.closed {
		ch.mu.Unlock()
		return
	}
	ch.closed = true
	ch.cause = cause
	ch.mu.Unlock()
	ch.cond.Broadcast()
	// An abrupt close of the transport: a TLS close-notify could block behind
	// a peer that does not read.
	_ = ch.link.Conn.NetConn().SetDeadline(time.Unix(1, 0))
	_ = ch.link.Conn.NetConn().Close()
}

// Shutdown closes the channel and waits until it is closed, or ctx is done.
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
	all := make([]*Circ, 0, len(ch.circs))
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

// Queued returns how many cells wait on all circuits.
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
func (ch *Channel) RemoteAddr() netip.Addr { return remoteAddr(ch.conn.RemoteAddr()) }
