package channel

import "time"

// The backlog of a client's link is the cells that it has brought and that still wait here for the next relays. Windows
// bound what waits of one circuit, but a client may fill twenty of them, with a hundred kilobytes each. Beyond the bound
// the rest waits in the client, which knows better what to send first. Links of other relays have no such bound: one slow
// relay would hold up all that others send through the same link.
const (
	maxBacklog = 480            // cells: the windows of two busy circuits, and more
	lowBacklog = maxBacklog / 2 // what must have gone on before more is read
)

// maxHold is how long the reader waits for its backlog at most, before it reads one batch more: circuits that stand
// still must not stop the link's other ones.
const maxHold = 20 * time.Millisecond

// hold is what a reader waits on. Who takes it out of Channel.held gives it one token.
type hold struct {
	ease chan struct{}
	late *time.Timer
}

// From says that what will be queued on c comes from the link of from. It is called before the first cell is.
func (c *CircuitEnd) From(from *Channel) {
	if from.link.PeerAuthenticated {
		return
	}
	c.ch.mu.Lock()
	defer c.ch.mu.Unlock()
	c.from = from
}

// queuedLocked counts n cells that were queued on c.
func (c *CircuitEnd) queuedLocked(n int) {
	c.queued.Store(int32(c.q.n))
	if c.from != nil {
		c.from.backlog.Add(int64(n))
	}
}

// leftLocked counts n cells that have left the queue of c.
func (c *CircuitEnd) leftLocked(n int) {
	c.queued.Store(int32(c.q.n))
	if c.from != nil && c.from.backlog.Add(int64(-n)) <= lowBacklog {
		if h := c.from.held.Swap(nil); h != nil {
			h.ease <- struct{}{} // has room: the token of a hold is given once
		}
	}
}

// holdBack waits, on the reader, while the backlog is too large.
func (ch *Channel) holdBack() {
	if ch.backlog.Load() <= maxBacklog {
		return
	}
	// What came already must not wait.
	if len(ch.touched) > 0 && !ch.batch {
		ch.beginBatch()
	}
	if ch.batch {
		ch.endBatch()
	}
	// The reader's buffers are on no account while they are in use for a moment only.
	ch.account.Reserve(readBuffer + wireSpace)
	defer ch.account.Release(readBuffer + wireSpace)
	h := ch.hold
	if h == nil {
		h = &hold{make(chan struct{}, 1), time.NewTimer(maxHold)}
		ch.hold = h
	} else {
		h.late.Reset(maxHold)
	}
	defer h.late.Stop()
	ch.held.Store(h)
	if ch.backlog.Load() > lowBacklog {
		select {
		case <-h.ease:
			return
		case <-h.late.C:
		}
	}
	if !ch.held.CompareAndSwap(h, nil) {
		<-h.ease // somebody has taken it meanwhile
	}
}
