package pool

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/isolation"
	"github.com/chivenet/chive/internal/path"
)

// fakeCircuit ends at an exit that allows some ports.
type fakeCircuit struct {
	spec   Spec
	exit   ident.RSAID
	before ident.RSAID // the hop before the exit
	ports  []uint16    // none: any, for an exit circuit
	stable bool
	// everything: the last relay is an exit, whatever the circuit was built for.
	everything bool
	steered    bool
	lost       atomic.Int32 // legs of a set, which has two
	done       chan struct{}
	once       sync.Once
}

func (c *fakeCircuit) Exit() ident.RSAID { return c.exit }
func (c *fakeCircuit) Allows(d path.Dest) bool {
	return c.everything || len(c.spec.Dests) > 0 && (len(c.ports) == 0 || d.Port == 0 || slices.Contains(c.ports, d.Port))
}
func (c *fakeCircuit) Leads(hops int, next ident.RSAID) bool {
	return cmp.Or(c.spec.Hops, path.DefaultHops) == hops && (next.IsZero() || next != c.exit && next != c.before)
}
func (c *fakeCircuit) Stable() bool  { return c.stable }
func (c *fakeCircuit) Steered() bool { return c.steered }
func (c *fakeCircuit) Legs() int {
	if c.spec.Set {
		return 2 - int(c.lost.Load())
	}
	return 1
}
func (c *fakeCircuit) Done() <-chan struct{} { return c.done }
func (c *fakeCircuit) Close()                { c.once.Do(func() { close(c.done) }) }

func (c *fakeCircuit) closed() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// fakeBuilder takes a while to build, and then asks make what came of it.
type fakeBuilder struct {
	took time.Duration
	make func(n int, ctx context.Context, s Spec) (*fakeCircuit, error) // nil: always a circuit

	mu       sync.Mutex
	specs    []Spec
	circuits []*fakeCircuit
}

func (b *fakeBuilder) Build(ctx context.Context, s Spec) (PooledCircuit, error) {
	b.mu.Lock()
	n := len(b.specs)
	b.specs = append(b.specs, s)
	b.mu.Unlock()
	t := time.NewTimer(b.took)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c := circuit(n, s)
	if b.make != nil {
		var err error
		if c, err = b.make(n, ctx, s); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.circuits = append(b.circuits, c)
	return c, nil
}

// circuit is the n-th circuit, as it was asked for.
func circuit(n int, s Spec) *fakeCircuit {
	c := &fakeCircuit{spec: s, stable: s.Stable, done: make(chan struct{})}
	binary.BigEndian.PutUint32(c.exit[:], uint32(n+1))
	return c
}

func (b *fakeBuilder) launched() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.specs)
}

// bare is a configuration that builds nothing ahead.
func bare() Config { return Config{InitialPorts: []uint16{}, PerPort: -1} }

func key(user string) isolation.Key { return isolation.Key{Listener: user} }

func to(port uint16, k isolation.Key) Request { return Request{Key: k, Dest: path.Dest{Port: port}} }

func acquire(t testing.TB, p *Pool, r Request) *Lease {
	t.Helper()
	l, err := p.Acquire(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
