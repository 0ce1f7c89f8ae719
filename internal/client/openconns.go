package client

import (
	"maps"
	"slices"
	"sync"
)

// openConns has the open streams. What closed ones have carried is counted under its lock, so
// that no stream counts twice, or not at all.
type openConns struct {
	mu  sync.Mutex // guards what follows
	all map[*Conn]struct{}
}

func (o *openConns) add(s *Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[*Conn]struct{}{}
	}
	o.all[s] = struct{}{}
}

// remove takes a stream out, and calls count, which counts what it has carried.
func (o *openConns) remove(s *Conn, count func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, s)
	count()
}

// list returns them in any order.
func (o *openConns) list() []*Conn {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.all))
}

// bytes adds what open streams have delivered and taken to what closed ones have, which counted
// returns.
func (o *openConns) bytes(counted func() (read, written uint64)) (read, written uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	read, written = counted()
	for conn := range o.all {
		r, w := conn.Bytes()
		read += r
		written += w
	}
	return read, written
}
