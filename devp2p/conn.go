package devp2p

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"
)

// What counts as a burst of data: bytes with no longer gap between reads, so that the
// connection and not the peer's silence is measured.
const (
	burstGap   = 100 * time.Millisecond
	burstBytes = 64 << 10
)

// conn measures a dialled connection: the time from the first byte written to the first
// byte read, which is RLPx's first round trip, and the rate of bursts.
type conn struct {
	net.Conn
	id    enode.ID
	onion bool
	book  *measures

	mu       sync.Mutex
	wrote    time.Time // guarded by mu: the first write; zero: there was none
	heard    bool      // guarded by mu: something was read
	began    time.Time // guarded by mu: the burst's first read
	lastRead time.Time // guarded by mu
	burst    int       // guarded by mu: bytes after the first read
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.note(n, time.Now())
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.wrote.IsZero() {
		c.wrote = time.Now()
	}
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// CloseWrite says that nothing more will be written, if the connection can say so.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// note adds n bytes that were read.
func (c *conn) note(n int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.heard {
		c.heard = true
		if !c.wrote.IsZero() {
			c.book.roundTrip(c.id, c.onion, now.Sub(c.wrote))
		}
	}
	if now.Sub(c.lastRead) > burstGap {
		c.began, c.burst = now, 0
	} else {
		c.burst += n
	}
	c.lastRead = now
	if took := now.Sub(c.began); c.burst >= burstBytes && took >= time.Millisecond {
		c.book.rate(c.id, c.onion, float64(c.burst)/took.Seconds())
		c.began, c.burst = now, 0
	}
}
