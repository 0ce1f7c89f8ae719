package relay

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/options"
)

// minRate and minBridgeRate are the least that a relay may be limited to, in
// bytes a second: C tor's bounds, below which a relay is of no use to anyone.
const (
	minRate       = 75 << 10
	minBridgeRate = 50 << 10
)

// checkRates reports what is wrong with the limits.
func (c *Config) checkRates() error {
	least := uint64(minRate)
	if c.Bridge {
		least = minBridgeRate
	}
	switch {
	case c.Rate == 0 && c.Burst != 0:
		return options.Wrong("BandwidthBurst", "it needs a bandwidth rate")
	case c.Rate != 0 && c.Rate < least:
		return options.Wrong("BandwidthRate", "%d bytes a second: %d is the least", c.Rate, least)
	case c.Burst != 0 && c.Burst < c.Rate:
		return options.Wrong("BandwidthBurst", "%d bytes are less than the rate, %d a second", c.Burst, c.Rate)
	case c.MaxAdvertised != 0 && c.MaxAdvertised < least:
		return options.Wrong("MaxAdvertised", "%d bytes a second: %d is the least", c.MaxAdvertised, least)
	}
	return nil
}

// noRate is what a descriptor says of a relay without limits; it is C tor's
// default.
const noRate = 1 << 30

// advertisedBandwidth is what the descriptor says of the limits.
func (c *Config) advertisedBandwidth() (rate, burst uint64) {
	rate, burst = noRate, noRate
	if c.Rate != 0 {
		rate, burst = c.Rate, max(c.Rate, c.Burst)
	}
	if c.MaxAdvertised != 0 {
		rate = min(rate, c.MaxAdvertised)
	}
	return rate, burst
}

// allowance bounds a rate. Time fills it. A taker that takes more than there is
// leaves a debt, and the next takers wait for it in turn. It is not a limiter of
// golang.org/x/time/rate: that one gives nobody more than the burst at once, which
// a write of many records may exceed, and allocates for each wait, of which links
// have one for each read and write.
type allowance struct {
	mu    sync.Mutex // guards what follows
	rate  float64    // bytes a second; 0: no bound
	burst float64    // bytes
	have  float64
	last  time.Time
}

func (b *allowance) set(rate, burst uint64, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last.IsZero() {
		b.have, b.last = float64(burst), now
	}
	b.rate, b.burst = float64(rate), float64(burst)
	b.have = min(b.have, b.burst)
}

// take takes n bytes and returns how long to wait for them.
func (b *allowance) take(n int, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rate == 0 {
		return 0
	}
	if d := now.Sub(b.last); d > 0 {
		b.have, b.last = min(b.burst, b.have+b.rate*d.Seconds()), now
	}
	b.have -= float64(n)
	if b.have >= 0 {
		return 0
	}
	return time.Duration(-b.have / b.rate * float64(time.Second))
}

// limits bounds what all links together read and write.
type limits struct {
	on          atomic.Bool
	read, write allowance
}

// set changes the limits, in bytes a second and bytes; 0: none.
func (l *limits) set(rate, burst uint64, now time.Time) {
	if burst == 0 {
		burst = rate
	}
	l.read.set(rate, burst, now)
	l.write.set(rate, burst, now)
	l.on.Store(rate > 0)
}

// limit puts a link under the limits. Where there are none it returns the
// connection itself: its link then writes straight to the socket.
func (l *limits) limit(conn net.Conn) net.Conn {
	if !l.on.Load() {
		return conn
	}
	return &limited{Conn: conn, limits: l, closed: make(chan struct{})}
}

// limited is a link's connection under limits. It hides the socket, so that
// only the link's own goroutines wait: one for reading, one for writing.
type limited struct {
	net.Conn
	limits *limits
	once   sync.Once
	closed chan struct{}

	// patience is how long a write may take, once its turn has come.
	patience atomic.Int64
}

// wait waits for n bytes' time; false when the connection was closed.
func (c *limited) wait(b *allowance, n int) bool {
	d := b.take(n, time.Now())
	if d == 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.closed:
		return false
	}
}

// Read reads, and gives what it read when its time has come: meanwhile the
// kernel's buffer fills and the peer has to wait.
func (c *limited) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.wait(&c.limits.read, n) {
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *limited) Write(p []byte) (int, error) {
	if !c.wait(&c.limits.write, len(p)) {
		return 0, net.ErrClosed
	}
	if d := time.Duration(c.patience.Load()); d > 0 {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(d)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

// SetWriteDeadline bounds the time of writing, without that of waiting for the
// limits: whom they hold up is not to blame.
func (c *limited) SetWriteDeadline(t time.Time) error {
	if d := time.Until(t); d > 0 {
		c.patience.Store(int64(d))
		return nil
	}
	c.patience.Store(0)
	return c.Conn.SetWriteDeadline(t)
}

func (c *limited) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
