package exit

import (
	"context"
	"time"
)

// silence is how long a name server that did not answer is asked after the others. Most
// clients wait no longer than two of its timeouts.
const silence = 30 * time.Second

// order returns the name servers in the order in which to ask them: each in turn is the
// first, except those that were silent lately.
func (r *resolver) order() []int {
	n := len(r.servers)
	start, now := int(r.next.Add(1)%uint32(n)), r.now().UnixNano()
	var out, last []int
	for i := range n {
		if k := (start + i) % n; r.silent[k].Load() > now {
			last = append(last, k)
		} else {
			out = append(out, k)
		}
	}
	return append(out, last...)
}

// heard notes whether a server answered; a question that was given up says nothing about it.
func (r *resolver) heard(ctx context.Context, server int, err error) {
	switch {
	case err != errNoServer:
		r.silent[server].Store(0)
	case ctx.Err() == nil:
		r.silent[server].Store(r.now().Add(silence).UnixNano())
	}
}
