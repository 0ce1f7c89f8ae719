package scale

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/proc"
	"github.com/chivenet/chive/internal/linkspec"
)

// activeLoad is the client's side of active circuits.
type activeLoad struct {
	to    peer
	links []*cellLink
}

// openActive opens n links for active circuits. If it returns an error, some may be open nevertheless.
func openActive(ctx context.Context, to peer, n int) (*activeLoad, error) {
	l := &activeLoad{to: to, links: make([]*cellLink, n)}
	err := each(ctx, n, func(ctx context.Context, i int) (err error) {
		ctx, cancel := context.WithTimeout(ctx, setupTime)
		defer cancel()
		raw, err := to.dial(ctx, source(i))
		if err != nil {
			return err
		}
		l.links[i], err = linkOver(raw, nil, func(c net.Conn) (*channel.Link, error) {
			return channel.Connect(ctx, c, to.id, to.or, &channel.LinkConfig{})
		})
		return err
	})
	return l, err
}

// err returns why links have ended; nil: all are open.
func (l *activeLoad) err() error {
	var all []error
	for _, link := range l.links {
		all = append(all, link.err())
	}
	return errors.Join(all...)
}

func (l *activeLoad) close() {
	for _, link := range l.links {
		if link != nil {
			link.close()
		}
	}
}

// paths builds n circuits through the relay, on all links and to all far relays in turns.
func (l *activeLoad) paths(ctx context.Context, far []*farRelay, n int) ([]*path, error) {
	near := linkspec.Target{RelayID: l.to.id, Addrs: []netip.AddrPort{l.to.or}}
	paths := make([]*path, n)
	err := each(ctx, n, func(ctx context.Context, i int) (err error) {
		one, cancel := context.WithTimeout(ctx, setupTime)
		defer cancel()
		// Neighbours on a link lead to different relays, whatever the two numbers have in common.
		paths[i], err = buildPath(one, l.links[i%len(l.links)], near, far[(i/len(l.links)+i)%len(far)])
		return err
	})
	return paths, err
}

// flows are circuits that all move cells the same way, each with a whole window under way.
type flows struct {
	paths []*path
	to    int // the end where the cells come out
}

// startFlows begins with a window of cells on each circuit.
func startFlows(paths []*path, to, window int) *flows {
	f := &flows{paths, to}
	for _, p := range paths {
		p.ends[to].flowing.Store(true)
	}
	for _, p := range paths {
		p.ends[to].other().send(window)
	}
	return f
}

// stop sends no more, and waits until nothing has come for a moment.
func (f *flows) stop(ctx context.Context) error {
	for _, p := range f.paths {
		p.ends[f.to].flowing.Store(false)
	}
	for before := int64(-1); ; {
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		now := total(f.counts())
		if now == before {
			return nil
		}
		before = now
	}
}

// counts returns how many cells have come on each circuit.
func (f *flows) counts() []int64 {
	n := make([]int64, len(f.paths))
	for i, p := range f.paths {
		n[i] = p.ends[f.to].got.Load()
	}
	return n
}

// lost counts the circuits that were closed.
func (f *flows) lost() (n int) {
	for _, p := range f.paths {
		if p.lost.Load() {
			n++
		}
	}
	return n
}

// watch measures flows for some time, after a time to warm up.
func (f *flows) watch(ctx context.Context, to peer, p *ActivePlan, rest int64) (m Shared, err error) {
	if err := pause(ctx, p.WarmUp); err != nil {
		return m, err
	}
	first, began := f.counts(), time.Now()
	before, err := proc.Of(to.pid)
	if err != nil {
		return m, err
	}
	own, err := proc.Of(os.Getpid())
	if err != nil {
		return m, err
	}
	last := before
	for time.Since(began) < p.Watch {
		if err := pause(ctx, p.Watch/20); err != nil {
			return m, err
		}
		if last, err = proc.Of(to.pid); err != nil {
			return m, err
		}
		m.Growth = max(m.Growth, last.RSS-rest)
	}
	load, err := proc.Of(os.Getpid())
	if err != nil {
		return m, err
	}
	took := time.Since(began).Seconds()
	moved := f.counts()
	for i := range moved {
		moved[i] -= first[i]
	}
	m.MBps, m.Jain, m.Spread = share(moved, took)
	m.CPU, m.Load = (last.CPU-before.CPU).Seconds()/took, (load.CPU-own.CPU).Seconds()/took
	return m, nil
}

// share says how much moved, in MB/s, and how evenly circuits shared that.
func share(moved []int64, seconds float64) (rate, jain, spread float64) {
	var sum, squares float64
	least, most := moved[0], moved[0]
	for _, n := range moved {
		sum += float64(n)
		squares += float64(n) * float64(n)
		least, most = min(least, n), max(most, n)
	}
	if squares > 0 {
		jain = sum * sum / float64(len(moved)) / squares
	}
	return sum * cell.Len / 1e6 / seconds, jain, float64(most) / float64(max(1, least))
}

// ping sends a cell along a circuit and waits until the far relay's answer comes, n times. It returns how long that took.
func ping(ctx context.Context, p *path, n int, every time.Duration) ([]time.Duration, error) {
	came := make(chan struct{}, 1)
	hear := func(*pathEnd, int) { came <- struct{}{} }
	answer := func(e *pathEnd, n int) { e.send(n) }
	p.ends[nearEnd].arrived.Store(&hear)
	p.ends[farEnd].arrived.Store(&answer)
	took := make([]time.Duration, 0, n)
	for range n {
		if err := pause(ctx, every); err != nil {
			return nil, err
		}
		began := time.Now()
		p.ends[nearEnd].send(1)
		select {
		case <-came:
			took = append(took, time.Since(began))
		case <-time.After(setupTime):
			return nil, fault.New(fault.Timeout, "no answer to a small request")
		}
	}
	return took, nil
}
