package account

import "sync"

// outside is the memory that this process has from the system outside Go's heap, where the collector's limit does
// not count it.
var outside struct {
	mu    sync.Mutex // guards what follows; held while heard runs
	bytes int64
	heard func(bytes int64)
}

// Outside counts n bytes more of memory outside Go's heap; n may be negative. All accounts of the process share this
// figure.
func Outside(n int64) {
	outside.mu.Lock()
	defer outside.mu.Unlock()
	if outside.bytes += n; outside.heard != nil {
		outside.heard(outside.bytes)
	}
}

// HearOutside has f called now and whenever that memory changes, one call at a time, in the place of an earlier f; nil: nobody
// is told. f must not call Outside.
func HearOutside(f func(bytes int64)) {
	outside.mu.Lock()
	defer outside.mu.Unlock()
	if outside.heard = f; f != nil {
		f(outside.bytes)
	}
}
