package pool

import (
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/isolation"
)

var errNotHere = fault.New(fault.Closed, "circuit pool: the circuit has ended, or has as many streams as it may have")

// Adopt keeps a circuit that a controller had built. It gets the streams that Take is asked for, and no others;
// it expires as others do.
func (p *Pool) Adopt(c PooledCircuit) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed
	}
	now := time.Now()
	p.keepLocked(&entry{c: c, steered: true, built: now, expires: now.Add(p.cfg.CleanTimeout)})
	p.kick()
	return nil
}

// Take returns a lease of one circuit, for a stream that a controller wants there, whatever isolation says. From
// then on the circuit gets no other streams than those.
func (p *Pool) Take(c PooledCircuit, key isolation.Key) (*Lease, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		if e.c != c || e.dead() || e.retired && e.leases == 0 || e.private || e.internal || e.leases >= p.cfg.MaxStreams {
			continue
		}
		if e.clean() {
			e.dirty, e.key = time.Now(), key.Trim()
		}
		e.steered = true
		e.leases++
		p.kick() // another one may be needed in its place
		p.total.Leased++
		return &Lease{Circuit: c, p: p, e: e, req: Request{Key: key}}, nil
	}
	return nil, errNotHere
}

// Steer keeps a circuit from all streams that no controller attaches, and reports whether the pool has it.
func (p *Pool) Steer(c PooledCircuit) (found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		if e.c == c {
			e.steered, found = true, true
		}
	}
	p.kick()
	return found
}
