package flood

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/lab/proc"
)

// attack is a flood in progress.
type attack struct {
	Order
	*flood
	log *slog.Logger

	sent, opened, refused, closed atomic.Int64
	rate, dials                   limiter

	mu   sync.Mutex
	last error // guarded by mu: why the newest connection ended
}

const (
	// dialRate is how many connections an attacker opens per second.
	dialRate = 500
	// retry is the pause before a connection that ended is made anew.
	retry = 500 * time.Millisecond
)

// Serve is an attacker's process: it reads an order from in, prints "ready" on
// out, attacks until ctx is done or its time is over, and prints its counts on
// words.
func Serve(ctx context.Context, in io.Reader, out, words io.Writer) error {
	var o Order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return fault.New(fault.Config, "flood: the attacker's order: %w", err)
	}
	if _, err := io.WriteString(out, "ready\n"); err != nil {
		return fault.Wrap(fault.Local, err)
	}
	c, err := Attack(ctx, o)
	if err != nil {
		return err
	}
	if cpu, err := proc.CPU(os.Getpid()); err == nil {
		c.CPU = cpu.Milliseconds()
	}
	return fault.Wrap(fault.Local, json.NewEncoder(words).Encode(c))
}

// Attack executes an order until ctx is done or its time is over, and leaves
// nothing behind.
func Attack(ctx context.Context, o Order) (Counts, error) {
	a, err := newAttack(o)
	if err != nil {
		return Counts{}, err
	}
	return a.carryOut(ctx)
}

func newAttack(o Order) (*attack, error) {
	f, err := find(o.Flood)
	if err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	a := &attack{Order: o, flood: f, log: slog.New(slog.DiscardHandler)}
	a.rate.per, a.dials.per = time.Second/time.Duration(f.rate), time.Second/dialRate
	return a, nil
}

func (a *attack) carryOut(ctx context.Context) (Counts, error) {
	ctx, cancel := context.WithTimeout(ctx, a.Time)
	defer cancel()
	if err := a.run(ctx, a); err != nil && ctx.Err() == nil {
		return Counts{}, fault.New(fault.KindOf(err), "flood %s: %w", a.name, err)
	}
	c := Counts{Sent: a.sent.Load(), Opened: a.opened.Load(), Refused: a.refused.Load(), Closed: a.closed.Load()}
	if a.last != nil {
		c.Last = a.last.Error()
	}
	return c, nil
}

// each runs f for every connection of the budget at the same time; a connection
// that ends is opened again after a pause, until ctx is done.
func (a *attack) each(ctx context.Context, f func(ctx context.Context, i int) error) error {
	var wg sync.WaitGroup
	for i := range a.conns {
		wg.Go(func() {
			for ctx.Err() == nil {
				err := f(ctx, i)
				if ctx.Err() != nil {
					return
				}
				a.closed.Add(1)
				a.note(err)
				pause(ctx, retry)
			}
		})
	}
	wg.Wait()
	return nil
}

// note remembers why a connection ended.
func (a *attack) note(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	a.mu.Lock()
	a.last = err
	a.mu.Unlock()
}

// dial opens the i-th connection to a port of the victim's, or of a relay on
// the way, from its address. It is closed when ctx is done.
func (a *attack) dial(ctx context.Context, i int, to netip.AddrPort) (*gated, error) {
	if !a.dials.take(ctx, 1) {
		return nil, context.Cause(ctx)
	}
	c, err := dialFrom(ctx, a.Sources[i%len(a.Sources)], to)
	if err != nil {
		a.refused.Add(1)
		return nil, err
	}
	a.opened.Add(1)
	g := newGated(c)
	g.stop = context.AfterFunc(ctx, func() { g.Close() })
	return g, nil
}

// dialFrom connects from an address of loopback.
func dialFrom(ctx context.Context, from netip.Addr, to netip.AddrPort) (*net.TCPConn, error) {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: 10 * time.Second}
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, fault.Wrap(fault.Network, err)
	}
	return c.(*net.TCPConn), nil
}

// hold waits for the end of the attack, or of the connection: it reads and drops
// what the victim sends.
func (a *attack) hold(ctx context.Context, c net.Conn) error {
	_, err := io.Copy(io.Discard, c)
	if err == nil {
		err = io.EOF
	}
	return err
}

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// limiter limits events per second. It lets no more of them happen at once than
// fit into its slack.
type limiter struct {
	per time.Duration // time for one

	mu sync.Mutex
	at time.Time // guarded by mu: when the next one is due
}

// slack is how late a limiter may be and still catch up: timers are coarse.
const slack = 20 * time.Millisecond

// take waits until n more may happen; false when ctx is done.
func (l *limiter) take(ctx context.Context, n int) bool {
	l.mu.Lock()
	now := time.Now()
	if late := now.Add(-slack); l.at.Before(late) {
		l.at = late
	}
	wait := l.at.Sub(now)
	l.at = l.at.Add(time.Duration(n) * l.per)
	l.mu.Unlock()
	if wait > 0 {
		pause(ctx, wait)
	}
	return ctx.Err() == nil
}
