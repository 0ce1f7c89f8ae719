package client

import (
	"maps"
	"slices"
	"sync"
)

// openCircs has the open circuits.
type openCircs struct {
	mu   sync.Mutex // guards what follows; innermost
	byID map[uint64]*OpenCircuit
}

func (o *openCircs) add(circ *OpenCircuit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byID == nil {
		o.byID = map[uint64]*OpenCircuit{}
	}
	o.byID[circ.id] = circ
}

func (o *openCircs) remove(circ *OpenCircuit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byID, circ.id)
}

// count returns how many there are.
func (o *openCircs) count() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return int64(len(o.byID))
}

// list returns them in any order.
func (o *openCircs) list() []*OpenCircuit {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Values(o.byID))
}
