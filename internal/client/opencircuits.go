package client

import (
	"maps"
	"slices"
	"sync"
)

// openCircuits has the open circuits.
type openCircuits struct {
	mu   sync.Mutex // guards what follows; innermost
	byID map[uint64]*OpenCircuit
}

func (o *openCircuits) add(circ *OpenCircuit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byID == nil {
		o.byID = map[uint64]*OpenCircuit{}
	}
	o.byID[circ.id] = circ
}

func (o *openCircuits) remove(circ *OpenCircuit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byID, circ.id)
}

// count returns how many there are.
func (o *openCircuits) count() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return int64(len(o.byID))
}

// list returns them in any order.
func (o *openCircuits) list() []*OpenCircuit {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Values(o.byID))
}
