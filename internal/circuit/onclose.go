package circuit

import (
	"sync"

	"github.com/chivenet/chive/internal/panics"
)

// tellers counts the goroutines that run what OnClose was given.
type tellers struct {
	mu   sync.Mutex // guards what follows; innermost
	n    int
	none chan struct{} // closed when n is zero; nil: nobody waits for that
}

// OnClose has f called with the cause after the circuit has closed: Done is closed then.
// It never calls f itself, and neither does Close: f runs on a goroutine that holds no lock.
// So both may be called under a lock that f takes. The functions that were there at the end run
// one after the other, in the order in which they came; a later one has a goroutine
// of its own. A panic of one does not keep the others from running.
func (c *Circuit) OnClose(f func(error)) {
	if cause, ended := c.register(f); ended {
		c.env.tell([]func(error){f}, cause)
	}
}

// register keeps f until the circuit has closed, unless it has.
func (c *Circuit) register(f func(error)) (cause error, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.onEnd = append(c.onEnd, f)
	}
	return c.cause, c.ended
}

// tell calls the functions on a goroutine. Most circuits of a relay have none, and start none.
func (e *Env) tell(all []func(error), cause error) {
	if len(all) == 0 {
		return
	}
	e.tellers.add(1)
	go panics.Contain(e.Log, nil, func() {
		defer e.tellers.add(-1)
		for _, f := range all {
			panics.Contain(e.Log, nil, func() { f(cause) })()
		}
	})()
}

// WaitEnds waits until all that OnClose was given has run, of the circuits that have closed by
// now. A role calls it after its channels are closed, under no lock that such a function takes.
func (e *Env) WaitEnds() {
	if none := e.tellers.wait(); none != nil {
		<-none
	}
}

func (t *tellers) add(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n += n
	if t.n == 0 && t.none != nil {
		close(t.none)
		t.none = nil
	}
}

// wait returns what is closed when none is left; nil if there is none.
func (t *tellers) wait() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n > 0 && t.none == nil {
		t.none = make(chan struct{})
	}
	return t.none
}
