package client

import "sync"

// bootTold is what the hook and the log have heard last of how far a client has come. They hear of
// the changes in their order.
type bootTold struct {
	mu   sync.Mutex // held while boot changes and the hook hears of it; guards what follows
	last Bootstrap
}

// after calls change, and tells what there is now if that returns true.
func (t *bootTold) after(change func() bool, now func() Bootstrap, tell func(was, now Bootstrap)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if change() {
		t.tellLocked(now(), tell)
	}
}

// look tells what there is now if it is ready no more, or again, or has a problem no more, or one.
func (t *bootTold) look(now func() Bootstrap, tell func(was, now Bootstrap)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := now(); b.Ready != t.last.Ready || (b.Problem == "") != (t.last.Problem == "") {
		t.tellLocked(b, tell)
	}
}

func (t *bootTold) tellLocked(now Bootstrap, tell func(was, now Bootstrap)) {
	was := t.last
	t.last = now
	tell(was, now)
}
