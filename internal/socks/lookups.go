package socks

import (
	"container/list"
	"context"
	"sync"
)

// lookups are the lookups under way of a DNS port, the oldest first.
type lookups struct {
	mu  sync.Mutex // guards what follows
	all list.List  // of *lookup
}

type lookup struct {
	ctx    context.Context
	cancel context.CancelFunc
	at     *list.Element
}

// add begins a lookup. If there are most already, it cancels the oldest, which leaves room
// when it has ended, and returns nil: the program asks again.
func (l *lookups) add(ctx context.Context, most int) *lookup {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all.Len() >= most {
		oldest := l.all.Front()
		oldest.Value.(*lookup).cancel()
		l.all.MoveToBack(oldest) // the next one is another's turn
		return nil
	}
	n := new(lookup)
	n.ctx, n.cancel = context.WithCancel(ctx)
	n.at = l.all.PushBack(n)
	return n
}

func (l *lookups) remove(n *lookup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.cancel()
	l.all.Remove(n.at)
}
