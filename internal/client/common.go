package client

import (
	"sync"
	"time"

	"github.com/chivenet/chive/internal/cbt"
	"github.com/chivenet/chive/internal/path"
	"github.com/chivenet/chive/internal/pool"
	"github.com/chivenet/chive/internal/protover"
)

// common says what a pool builds ahead that shall look like C tor's.
func (c *Client) common() *pool.Common {
	return &pool.Common{Prompt: c.cfg.Prompt, Sets: c.setsAhead, Learning: c.learningTime, Server: c.services.any.Load, Begin: c.lookForLate, Swept: c.swept, Second: c.seconds.tick}
}

// seconds are those of the pool's clock, for what keeps to it.
type seconds struct {
	mu   sync.Mutex // guards next
	next chan struct{}
}

// wait returns what is closed at the next second.
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

// choosePair chooses the paths of the two legs of a set, or only one.
func (c *Client) choosePair(first, second *pool.Spec) ([]*path.Path, error) {
	p, err := c.chooseFor(first)
	if err != nil {
		first.NeedExit = nil // perhaps no exit can have sets
		p, err = c.chooseFor(first)
		return []*path.Path{p}, err
	}
	exit := p.Exit()
	if !exit.Target.Proto.Has(protover.Conflux, protover.ConfluxV1) || exit.Relay.IsZero() {
		return []*path.Path{p}, nil
	}
	second.Last = &exit.Target
	c.keepApart(&second.Spec, p)
	q, err := c.chooseFor(second)
	if err != nil {
		c.log.Debug("no second leg", "err", err)
		return []*path.Path{p}, nil
	}
	return []*path.Path{p, q}, nil
}
