package relay

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/options"
)

// minRate and minBridgeRate are the lowest limits of a relay, in bytes a second.
// They are C tor's: with less, a relay is useless.
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
	case c.MaxAdvertisedBandwidth != 0 && c.MaxAdvertisedBandwidth < least:
		return options.Wrong("MaxAdvertisedBandwidth", "%d bytes a second: %d is the least", c.MaxAdvertisedBandwidth, least)
	}
	return nil
}

// noRate is the rate in the descriptor of a relay without limits; it is C tor's
// default.
const noRate = 1 << 30

// advertisedBandwidth returns the limits for the descriptor.
func (c *Config) advertisedBandwidth() (rate, burst uint64) {
	rate, burst = noRate, noRate
	if c.Rate != 0 {
		rate, burst = c.Rate, max(c.Rate, c.Burst)
	}
	if c.MaxAdvertisedBandwidth != 0 {
		rate = min(rate, c.MaxAdvertisedBandwidth)
	}
	return rate, burst
}

// allowance is a token bucket. A caller may take more than it holds; this leaves
// a debt, and the next callers wait for it in turn. golang.org/x/time/rate is not
// suitable: it refuses more than the burst at once, which a write of many records
// may exceed, and it allocates memory for each wait, and links wait at each read
// and write.
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

// limits bounds the bytes that all links together read and write.
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

// limit applies the limits to a link. Without limits it returns the connection
// itself, so that the link writes directly to the socket.
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

	// patience is how long a write may take after its wait for the limits.
	patience atomic.Int64
}

// SetLinger implements channel.Resettable.
func (c *limited) SetLinger(seconds int) error { return setLinger(c.Conn, seconds) }

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

// Read reads, and then waits for the limits before it returns. Meanwhile the
// kernel's buffer fills and the peer must wait.
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

// SetWriteDeadline bounds the time of a write without its wait for the limits,
// because the peer does not cause that wait.
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
