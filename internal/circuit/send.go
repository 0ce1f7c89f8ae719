package circuit

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// Waiter is a stream's place in the queue for a hop's credit. It is small until somebody
// waits.
type Waiter struct {
	c      atomic.Pointer[chan struct{}] // gets a token when a new attempt can succeed
	queued bool                          // guarded by the circuit's mu
}

// IsWaiting reports whether Wait was called. If it was not, tokens are lost.
func (w *Waiter) IsWaiting() bool { return w.c.Load() != nil }

// Wait returns a channel that gets a token when a new attempt can succeed. After the
// first call the caller must try once more before it receives.
func (w *Waiter) Wait() <-chan struct{} {
	c := w.c.Load()
	if c == nil {
		made := make(chan struct{}, 1)
		if c = &made; !w.c.CompareAndSwap(nil, c) {
			c = w.c.Load()
		}
	}
	return *c
}

// Wake gives a token.
func (w *Waiter) Wake() {
	if c := w.c.Load(); c != nil {
		select {
		case *c <- struct{}{}:
		default:
		}
	}
}

// batchCells is how many DATA cells are sealed at a time: two TLS records' worth.
const batchCells = 62

// batch is scratch space for sealing.
type batch [batchCells * cell.Len]byte

var batchPool = sync.Pool{New: func() any { return new(batch) }}

// SendData seals up to maxCells DATA cells with bytes from p and queues them, as
// far as the hop's congestion or fixed window and the channel's queue allow. It
// does not block: if it accepts nothing, w gets a token when a new call can
// succeed. It returns how many bytes and cells it has accepted.
func (h *Hop) SendData(w *Waiter, stream uint16, p []byte, maxCells int) (n, cells int, err error) {
	if s := h.set.Load(); s != nil {
		return s.sendData(w, stream, p, maxCells)
	}
	n, cells, flush, err := h.takeTurn(w, stream, p, maxCells)
	if flush != nil {
		flush.Flush()
	}
	return n, cells, err
}

// takeTurn is the part of SendData under the lock; flush is a channel that the
// caller must flush.
func (h *Hop) takeTurn(w *Waiter, stream uint16, p []byte, maxCells int) (n, cells int, flush *channel.Channel, err error) {
	c := h.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(h.waiters) > 0 && !w.queued {
		h.enqueue(w) // other streams already wait: go to the end of the queue
		h.wakeFirst()
		return 0, 0, nil, nil
	}
	n, cells, more, flush, err := h.sealDataLocked(stream, p, maxCells)
	if cells == 0 && err == nil {
		h.enqueue(w)
		return 0, 0, nil, nil
	}
	h.dequeue(w)
	if more {
		// Credit is left: let the next stream have its turn, also if the queue is full
		// now. Only who finds it full is woken when it has space again.
		h.wakeFirst()
	}
	return n, cells, flush, err
}

func (h *Hop) sealData(stream uint16, p []byte, maxCells int) (n, cells int, flush *channel.Channel, err error) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	n, cells, _, flush, err = h.sealDataLocked(stream, p, maxCells)
	return n, cells, flush, err
}

// sealDataLocked seals as many cells as credit and the channel's queue allow;
// more says that credit is left. flush is a channel that the caller must flush without
// the lock.
func (h *Hop) sealDataLocked(stream uint16, p []byte, maxCells int) (n, cells int, more bool, flush *channel.Channel, err error) {
	c := h.c
	if c.closed.Load() {
		return 0, 0, false, nil, fault.New(fault.Closed, "send on stream: the circuit is closed: %w", c.cause)
	}
	per := h.format.MaxData(true)
	home := c.home.Load()
	credit, room := h.send.Available(), home.Room()
	if room == 0 {
		c.roomWait = true
	}
	k := min(maxCells, batchCells, (len(p)+per-1)/per, credit, room)
	if k <= 0 {
		return 0, 0, false, nil, nil
	}
	b := batchPool.Get().(*batch)
	defer batchPool.Put(b)
	now := c.env.Now()
	off := h.format.DataOffset(cell.RelayData)
	for i := range k {
		size := min(per, len(p)-n)
		if h.plain++; h.plain >= h.info.SendmeInc {
			size = min(size, per-salt)
		}
		if size <= per-salt {
			h.plain = 0
		}
		slot := b[i*cell.Len : (i+1)*cell.Len]
		payload := cell.Payload(slot)
		if err := h.format.PutHeader(payload, cell.RelayData, stream, size); err != nil {
			return 0, 0, false, nil, err // of the first cell, or of none: they are alike
		}
		copy(payload[off:], p[n:n+size])
		pad(payload[off+size:])
		n += size
		c.sealLocked(h, slot, c.spendLocked(h, cell.RelayData))
		if h.send.Sent(now) {
			h.tags.Push(h.seal.Tag())
		}
	}
	claimed, err := home.Enqueue(b[:k*cell.Len])
	if err != nil {
		return 0, 0, false, nil, err
	}
	c.countSent(k, n)
	if claimed {
		flush = home.Channel()
	}
	return n, k, credit > k, flush, nil
}

// sealLocked encrypts one cell with a message for h: it adds the layer of h, and
// those of the hops before it.
func (c *Circuit) sealLocked(h *Hop, slot []byte, cmd cell.Command) {
	cell.PutHeader(slot, 0, cmd)
	p := cell.Payload(slot)
	own := cmd
	if h.info.Onion {
		own = cell.CmdRelay // the rendezvous point sends RELAY cells only
	}
	h.seal.Originate(own, p)
	hops := *c.hops.Load()
	for i := h.index - 1; i >= 0; i-- {
		hops[i].seal.Encrypt(cmd, p)
	}
}

// Send seals and queues one message that is not subject to a window. stream is 0
// for messages about the circuit.
func (h *Hop) Send(cmd cell.RelayCommand, stream uint16, body []byte) error {
	if s := h.set.Load(); s != nil && cmd.Has(cell.Numbered) {
		return s.send(cmd, stream, body)
	}
	return h.sendCell(cell.CmdRelay, cmd, stream, body)
}

// SendStreamSendme acknowledges 50 DATA cells of a stream on a circuit with
// fixed windows.
func (h *Hop) SendStreamSendme(stream uint16) error {
	return h.sendCell(cell.CmdRelay, cell.RelaySendme, stream, nil)
}

// fill writes a message and the padding after it into a cell.
func (h *Hop) fill(slot []byte, cmd cell.RelayCommand, stream uint16, body []byte) error {
	p := cell.Payload(slot)
	if err := h.format.PutHeader(p, cmd, stream, len(body)); err != nil {
		return err
	}
	off := h.format.DataOffset(cmd)
	copy(p[off:], body)
	pad(p[off+len(body):])
	return nil
}

func (h *Hop) sendCell(cc cell.Command, cmd cell.RelayCommand, stream uint16, body []byte) error {
	var slot [cell.Len]byte
	if err := h.fill(slot[:], cmd, stream, body); err != nil {
		return err
	}
	flush, err := h.queueCell(cc, cmd, slot[:], len(body))
	flushAfter(flush, cmd)
	return err
}

// flushAfter writes what a channel has queued with a message of command cmd, if it is not nil.
// Programs open many streams at once: those that other goroutines are about to open go into one
// record, for which each relay on the way wakes up once.
func flushAfter(flush *channel.Channel, cmd cell.RelayCommand) {
	if flush == nil {
		return
	}
	if cmd.Has(cell.Opens) {
		runtime.Gosched()
	}
	flush.Flush()
}

// queueCell seals and queues one cell with a body of size bytes; flush is a channel that the caller must
// flush without the lock.
func (h *Hop) queueCell(cc cell.Command, cmd cell.RelayCommand, slot []byte, size int) (flush *channel.Channel, err error) {
	c := h.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return nil, fault.New(fault.Closed, "send %v: the circuit is closed: %w", cmd, c.cause)
	}
	home := c.home.Load()
	if limit, _ := c.env.Queues.limits(); home.Queued() > limit {
		// No window limits answers: they queue up here if a peer sends requests
		// without end and does not read. Close in another goroutine, because the
		// sender may hold a lock that closing needs.
		go panics.Contain(c.env.Log, nil, func() { c.Close(cell.DestroyResourceLimit, errQueue(home.Queued())) })()
		return nil, fault.New(fault.Closed, "send %v: the circuit is closing: %w", cmd, errQueue(home.Queued()))
	}
	if cc, err = c.commandLocked(h, cmd, cc); err != nil {
		return nil, err
	}
	c.sealLocked(h, slot, cc)
	claimed, err := home.EnqueueSoon(slot)
	if err == nil {
		c.countSent(1, size)
	}
	if claimed {
		flush = home.Channel()
	}
	return flush, err
}

// CancelWait removes w from the queue for credit, and wakes the next waiter: w may have
// been woken for credit that it does not use.
func (h *Hop) CancelWait(w *Waiter) {
	if s := h.set.Load(); s != nil {
		s.dequeue(w)
		s.wakeFirst()
		return
	}
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	h.dequeue(w)
	h.wakeFirst()
}

func (h *Hop) enqueue(w *Waiter) {
	if !w.queued {
		w.queued = true
		h.waiters = append(h.waiters, w)
	}
}

func (h *Hop) dequeue(w *Waiter) {
	if !w.queued {
		return
	}
	w.queued = false
	for i, x := range h.waiters {
		if x == w {
			h.waiters = append(h.waiters[:i], h.waiters[i+1:]...)
			return
		}
	}
}

// wakeFirst gives the longest waiter a token; it stays in the queue until it
// has sent.
func (h *Hop) wakeFirst() {
	if s := h.set.Load(); s != nil {
		s.wakeFirst()
		return
	}
	if len(h.waiters) > 0 {
		h.waiters[0].Wake()
	}
}

func (h *Hop) takeWaiters() []*Waiter {
	all := h.waiters
	h.waiters = nil
	for _, w := range all {
		w.queued = false
	}
	return all
}

// writable runs when home's queue has free space again.
func (c *Circuit) writable() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roomWait = false
	for _, h := range *c.hops.Load() {
		h.wakeFirst()
	}
}
