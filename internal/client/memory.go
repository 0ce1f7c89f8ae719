package client

import (
	"time"

	"github.com/chivenet/chive/internal/account"
)

// runMemory bounds the memory that relays make the client hold.
func (c *Client) runMemory() {
	c.memory.Run(c.ctx, time.Tick(time.Second), account.Seldom(time.Now, evictionLog, c.evicted))
}

// evictionLog is the least time between two lines about evictions in the log.
const evictionLog = 10 * time.Second

// evicted logs that relays made the client hold too much.
func (c *Client) evicted(holders int, bytes int64) {
	c.log.Warn("relays made the client hold too much memory: the circuits that held the most were closed", "bound", c.memory.Bound(), "closed", holders, "freed", bytes)
}
