package client

import (
	"context"
	"sync"
	"time"

	"github.com/chivenet/chive/internal/dirclient"
)

// dormancy says whether the client is dormant: it fetches no directory and builds no circuit ahead. What is under way goes on,
// and open circuits stay until they are too old. Whoever asks for a stream, a lookup or a circuit for an onion service ends that, and so
// do bytes of a stream that is open.
type dormancy struct {
	mu    sync.Mutex    // guards what follows
	awake chan struct{} // not nil: the client is dormant, until it is closed
	used  time.Time     // when the client was used last
}

// held returns a channel that is closed when the client is not dormant any more; nil: it is not.
func (d *dormancy) held() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.awake
}

// begin reports whether the client was not dormant before.
func (d *dormancy) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.awake != nil {
		return false
	}
	d.awake = make(chan struct{})
	return true
}

// end notes that the client is used, and reports whether it was dormant.
func (d *dormancy) end() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used = time.Now()
	if d.awake == nil {
		return false
	}
	close(d.awake)
	d.awake = nil
	return true
}

func (d *dormancy) lastUse() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used
}

// Rest has the client be dormant, until it is used or Wake is called.
func (c *Client) Rest() {
	if !c.dormancy.begin() {
		return
	}
	c.log.Info("the client is dormant: it fetches and builds nothing until it is used")
}

// Wake notes that the client is used: it is not dormant any more.
func (c *Client) Wake() {
	if !c.dormancy.end() {
		return
	}
	c.log.Info("the client is not dormant any more")
	if c.Bootstrap().Percent == 0 {
		c.dirProgress(dirclient.Progress{Phase: dirclient.PhaseConsensus})
	}
	if p := c.pool.Load(); p != nil {
		p.Retry() // it may build ahead again
	}
}

// Dormant reports whether the client is dormant.
func (c *Client) Dormant() bool { return c.dormancy.held() != nil }

// Idle reports whether the client is dormant, or has not been used for so long that it keeps no circuits ready.
func (c *Client) Idle() bool {
	p := c.pool.Load()
	return c.Dormant() || p != nil && !p.Predicts()
}

// LastUse returns when the client was used last, or began.
func (c *Client) LastUse() time.Time { return c.dormancy.lastUse() }

// whileDormant waits until the client is not dormant, and reports whether it goes on then.
func (c *Client) whileDormant(ctx context.Context) bool {
	if held := c.dormancy.held(); held != nil {
		select {
		case <-held:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// mayAsk waits until something may be asked of directories; false: ctx has ended.
func (c *Client) mayAsk(ctx context.Context) bool {
	return c.whileDormant(ctx) && (c.bridge == nil || c.bridge.await(ctx))
}

// Hosts reports whether the client hosts onion services.
func (c *Client) Hosts() bool { return c.services.any.Load() }

// HasStreams reports whether there are streams, open or not.
func (c *Client) HasStreams() bool { return c.lives.hasStreams() }

func (v *lives) hasStreams() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.streams) > 0
}

// movement notes that open streams carry bytes: the client is used.
type movement struct{ read, wrote uint64 }

func (m *movement) look(c *Client) {
	if read, wrote := c.bytes(); read != m.read || wrote != m.wrote {
		m.read, m.wrote = read, wrote
		c.Wake()
	}
}
