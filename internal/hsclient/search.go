package hsclient

import (
	"context"
	"errors"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/netdir"
)

// With Config.Once directories see the questions of C tor's clients: for a quarter of an hour none is asked again for the
// descriptor of one key, whoever wants it. What ends this time before: a connection to the service, a new identity, and that no
// directory is left to ask. Then whoever is at it has failed, and the next attempt asks all of them again, so that a service that
// comes back is found at once.

// requery is how long a directory is not asked again, in C tor's test networks requeryTesting.
const (
	requery        = 15 * time.Minute
	requeryTesting = 5 * time.Second
)

func (c *Client) requery() time.Duration {
	if c.cfg.Testing {
		return requeryTesting
	}
	return requery
}

var errAskedLately = errors.New("the directory was asked lately")

// search is that attempts, perhaps of several isolation keys, look for one descriptor. c.mu guards it.
type search struct {
	blinded   ident.Ed25519ID
	attempts  int           // under way
	questions int           // under way
	answered  chan struct{} // closed when the next of them ends
	over      bool          // no directory was left to ask
}

// beginSearch returns the search that an attempt takes part in, until endSearch.
func (c *Client) beginSearch(blinded ident.Ed25519ID) *search {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.searches[blinded]
	if s == nil {
		s = &search{blinded: blinded, answered: make(chan struct{})}
		c.searches[blinded] = s
	}
	s.attempts++
	return s
}

func (c *Client) endSearch(s *search) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.attempts--; s.attempts == 0 && c.searches[s.blinded] == s {
		delete(c.searches, s.blinded)
	}
}

// begin begins a question, until answered; false: it must not be asked.
func (c *Client) begin(s *search, q question, epoch int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.over || !c.noteLocked(q, epoch) {
		return false
	}
	s.questions++
	return true
}

func (c *Client) answered(s *search) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.questions--
	close(s.answered)
	s.answered = make(chan struct{})
}

// once asks one directory after the other, and waits for the answers to other attempts' questions before it gives up.
func (k *hunt) once(ctx context.Context, dirs []netdir.Relay) (*cached, error) {
	c, s := k.c, k.search
	for again := true; ; again = false {
		for _, dir := range dirs {
			if got := c.found(k); got != nil {
				return got, nil
			}
			if c.isOver(s) {
				return nil, k.last
			}
			if got, over, err := k.ask(ctx, dir); over {
				return got, err
			}
		}
		for wait := c.unanswered(s); wait != nil; wait = c.unanswered(s) {
			select {
			case <-wait:
			case <-ctx.Done():
				return nil, k.ended(ctx)
			}
		}
		if got := c.found(k); got != nil {
			return got, nil
		}
		if !again || k.asked > 0 || k.stale != nil || !c.alone(s) {
			break
		}
		// Those who asked have all gone before the answers came.
		c.forgetAsked(s.blinded)
	}
	if k.stale == nil { // else the attempt goes on, and connect sees its end
		c.exhausted(s)
	}
	return nil, k.last
}

// found returns the descriptor that another attempt has found meanwhile, or nil.
func (c *Client) found(k *hunt) *cached {
	if got := c.kept(k.svc.blinded, k.h.epoch); got != nil && got != k.stale {
		return got
	}
	return nil
}

func (c *Client) isOver(s *search) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.over
}

// alone reports whether no other attempt looks for the descriptor, and none has found that nobody is left to ask.
func (c *Client) alone(s *search) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.attempts == 1 && !s.over
}

// unanswered returns a channel that is closed when one of the questions under way ends; nil: there is none.
func (c *Client) unanswered(s *search) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.questions == 0 || s.over {
		return nil
	}
	return s.answered
}

// exhausted ends a search without success, for all who take part in it.
func (c *Client) exhausted(s *search) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.over || c.searches[s.blinded] != s { // or there is a new identity
		return
	}
	s.over = true
	delete(c.searches, s.blinded)
	c.forgetAskedLocked(s.blinded)
}
