package client

import (
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/pool"
)

// common says what a pool builds ahead that shall look like C tor's.
func (c *Client) common() *pool.Common {
	return &pool.Common{Prompt: c.cfg.Prompt, Sets: c.setsAhead, Learning: c.learningTime, Server: c.services.any.Load, Begin: c.lookForLate, Swept: c.swept, Second: c.seconds.tick}
}

// seconds are those of the pool's clock, or its sweeps, for what keeps to it.
type seconds struct {
	mu   sync.Mutex // guards next
	next chan struct{}
}

// wait returns what is closed at the next one.
func (s *seconds) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

func (s *seconds) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}

// learningTime returns for how long circuits are kept that nobody uses, while build times are being learned; else zero.
func (c *Client) learningTime() time.Duration {
	learning := false
	c.times.use(func(e *cbt.Estimator) { learning = e.Learning() })
	if !learning {
		return 0
	}
	seconds := int32(180)
	if d := c.dirs.Directory(); d != nil {
		seconds = d.Param("cbtlearntimeout", seconds, 10, 1000*60)
	}
	return time.Duration(seconds) * time.Second
}
