package client

import "sync"

// boot is how far a client has come by itself. Client.Bootstrap adds what holds at the moment.
type boot struct {
	mu  sync.Mutex // guards what follows; innermost
	now Bootstrap
}

func (b *boot) get() Bootstrap {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

// change returns what f does, which may change it.
func (b *boot) change(f func(*Bootstrap) bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return f(&b.now)
}
