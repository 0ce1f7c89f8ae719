package channel

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
	"github.com/chivenet/chive/internal/linkspec"
)

// dials is a network of black holes, which counts who is dialled.
type dials struct {
	mu    sync.Mutex // guards what follows
	addrs []netip.AddrPort
	open  int // under way now
}

// manager returns one that dials into black holes.
func (d *dials) manager() *Manager {
	count := func(f func()) {
		d.mu.Lock()
		defer d.mu.Unlock()
		f()
	}
	return NewManager(&Config{Log: slog.New(slog.DiscardHandler), Now: time.Now}, &LinkConfig{}, func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
		count(func() { d.addrs, d.open = append(d.addrs, a), d.open+1 })
		defer count(func() { d.open-- })
		<-ctx.Done()
		return nil, ctx.Err()
	})
}

func hole(ports ...string) linkspec.Target {
	t := linkspec.Target{RelayID: ident.RelayID{RSA: ident.RSAID{1}}}
	for _, p := range ports {
		t.Addrs = append(t.Addrs, netip.MustParseAddrPort(p))
	}
	return t
}

// TestOneDialEach: however many addresses a target names, one of each family is
// dialled, however many wait for it.
func TestOneDialEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d dials
		m := d.manager()
		target := hole("127.1.0.1:1", "127.1.0.2:1", "127.1.0.3:1", "[2001:db8::1]:1", "[2001:db8::2]:1")
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error)
		for range 20 {
			go func() {
				_, err := m.Get(ctx, target)
				errs <- err
			}()
		}
		time.Sleep(10 * stagger)
		synctest.Wait()
		if len(d.addrs) != 2 || d.addrs[0] != target.Addrs[0] || d.addrs[1] != target.Addrs[3] {
			t.Errorf("dialled: %v", d.addrs)
		}
		cancel()
		for range 20 {
			if err := <-errs; !fault.Is(err, fault.Timeout) {
				t.Error(err)
			}
		}
		d.end(t, m)
	})
}

// TestInTurn: with Another a relay's IPv4 address is tried alone, and the other one only after an error that says so.
func TestInTurn(t *testing.T) {
	noRoute, refused := errors.New("no route"), errors.New("refused")
	target := hole("[2001:db8::1]:1", "127.1.0.1:1", "127.1.0.2:1")
	for _, c := range []struct {
		err  error
		want []netip.AddrPort
	}{{noRoute, []netip.AddrPort{target.Addrs[1], target.Addrs[0]}}, {refused, target.Addrs[1:2]}} {
		var tried []netip.AddrPort
		m := NewManager(&Config{Log: slog.New(slog.DiscardHandler), Now: time.Now, Another: func(err error) bool { return errors.Is(err, noRoute) }}, &LinkConfig{},
			func(_ context.Context, a netip.AddrPort) (net.Conn, error) {
				tried = append(tried, a)
				return nil, c.err
			})
		if _, err := m.Get(t.Context(), target); !errors.Is(err, c.err) {
			t.Errorf("%v: %v", c.err, err)
		}
		m.Close()
		if !slices.Equal(tried, c.want) {
			t.Errorf("%v: tried %v", c.err, tried)
		}
	}
}

// TestInTurnWaits: a silent address is not left for another one.
func TestInTurnWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d dials
		m := d.manager()
		m.cfg.Another = func(error) bool { return true }
		ctx, cancel := context.WithTimeout(t.Context(), 10*stagger)
		defer cancel()
		if _, err := m.Get(ctx, hole("127.1.0.1:1", "[2001:db8::1]:1")); !fault.Is(err, fault.Timeout) {
			t.Error(err)
		}
		if len(d.addrs) != 1 {
			t.Errorf("dialled: %v", d.addrs)
		}
		d.end(t, m)
	})
}

// end checks that nothing of the manager's is under way, and closes it.
func (d *dials) end(t *testing.T, m *Manager) {
	t.Helper()
	synctest.Wait()
	if len(m.opening) != 0 || d.open != 0 {
		t.Errorf("%d attempts, %d dials are left", len(m.opening), d.open)
	}
	m.Close()
}

// TestAttemptOutlivesFirst: an attempt belongs to all who wait. When the first one
// gives up, the others go on with the same dial; when all have, it ends at once.
func TestAttemptOutlivesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d dials
		m := d.manager()
		var cancels []context.CancelFunc
		errs := make(chan error, 3)
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			cancels = append(cancels, cancel)
			go func() {
				_, err := m.Get(ctx, hole("127.1.0.1:1"))
				errs <- err
			}()
			synctest.Wait()
		}
		for i, cancel := range cancels {
			if len(d.addrs) != 1 || d.open != 1 {
				t.Errorf("before %d left: %d dials, %d under way", i, len(d.addrs), d.open)
			}
			cancel()
			<-errs
			synctest.Wait()
		}
		d.end(t, m)
	})
}

// TestPatientAttempt: with patience, an attempt goes on for who comes later when the time of those who waited is over, and not
// for ever. It ends with those who leave by themselves.
func TestPatientAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d dials
		m := d.manager()
		m.cfg.Patient = true
		get := func(within time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			_, err := m.Get(ctx, hole("127.1.0.1:1"))
			return err
		}
		dialled := func() (all, open int) {
			synctest.Wait()
			d.mu.Lock()
			defer d.mu.Unlock()
			return len(d.addrs), d.open
		}
		began := time.Now()
		for range 5 {
			var c *ConnectError
			err := get(attemptTimeout / 6)
			if all, open := dialled(); !errors.As(err, &c) || !fault.Is(err, fault.Timeout) || all != 1 || open != 1 {
				t.Errorf("%v: %d dials, %d under way", err, all, open)
			}
		}
		err := get(attemptTimeout)
		if _, open := dialled(); time.Since(began) != attemptTimeout || open != 0 {
			t.Errorf("the attempt took %v: %v", time.Since(began), err)
		}
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		if _, err := m.Get(ctx, hole("127.1.0.1:1")); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if all, _ := dialled(); all != 2 {
			t.Errorf("%d dials", all)
		}
		d.end(t, m)
	})
}

// TestAttemptEnds: who joins an attempt does not keep it alive for ever.
func TestAttemptEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d dials
		m := d.manager()
		began := time.Now()
		errs := make(chan error, 2)
		for i := range 2 {
			go func() {
				time.Sleep(time.Duration(i) * attemptTimeout / 2)
				_, err := m.Get(t.Context(), hole("127.1.0.1:1"))
				errs <- err
			}()
		}
		for range 2 {
			if err := <-errs; !fault.Is(err, fault.Timeout) || !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		if took := time.Since(began); took != attemptTimeout || len(d.addrs) != 1 {
			t.Errorf("%d dials, for %v", len(d.addrs), took)
		}
		d.end(t, m)
	})
}

// TestCloseEndsAttempts: Close does not leave dials behind, and none starts
// afterwards.
func TestCloseEndsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d dials
		m := d.manager()
		err := make(chan error)
		go func() {
			_, e := m.Get(t.Context(), hole("127.1.0.1:1"))
			err <- e
		}()
		synctest.Wait()
		go m.Close()
		if e := <-err; e == nil || strings.Contains(e.Error(), "127.") {
			t.Error(e)
		}
		if _, e := m.Get(t.Context(), hole("127.1.0.1:1")); !fault.Is(e, fault.Closed) || !errors.Is(e, net.ErrClosed) {
			t.Error(e)
		}
		d.end(t, m)
	})
}
