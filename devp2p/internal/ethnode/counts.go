package ethnode

import (
	"sync"
	"sync/atomic"
)

// counts are the node's counters.
type counts struct {
	accepted, refused, dropped atomic.Uint64

	mu       sync.Mutex
	faults   map[Event]uint64
	messages map[string]uint64 // by name of the table
	passed   [len(classes)]uint64
	empty    [len(classes)]uint64
	barred   map[string]uint64 // by class of Rules
}

func (c *counts) fault(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.faults == nil {
		c.faults = make(map[Event]uint64)
	}
	c.faults[e]++
}

func (c *counts) message(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.messages == nil {
		c.messages = make(map[string]uint64)
	}
	c.messages[name]++
}

func (c *counts) forwarded(k *class) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed[k.index()]++
}

func (c *counts) unanswered(k *class) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.empty[k.index()]++
}
