package channel

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// TestConnectError: only an attempt to connect that failed says something about the relay: not
// that a caller gave up, not that one had less patience than others, and not that this process
// has no sockets left.
func TestConnectError(t *testing.T) {
	blames := func(err error) bool {
		var c *ConnectError
		return errors.As(err, &c)
	}
	synctest.Test(t, func(t *testing.T) {
		var d dials
		m := d.manager()
		target := hole("127.1.0.1:1")
		get := func(ctx context.Context) <-chan error {
			got := make(chan error, 1)
			go func() {
				_, err := m.Get(ctx, target)
				got <- err
			}()
			synctest.Wait()
			return got
		}
		within := func(d time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return ctx
		}
		given, giveUp := context.WithCancel(t.Context())
		short, long, cancelled := get(within(time.Second)), get(within(2*time.Second)), get(given)
		if err := <-short; blames(err) || !fault.Is(err, fault.Timeout) {
			t.Errorf("one that waits no longer, while others do: %v", err)
		}
		giveUp()
		if err := <-cancelled; blames(err) {
			t.Errorf("one that gave up, while others wait: %v", err)
		}
		if err := <-long; !blames(err) || !fault.Is(err, fault.Timeout) {
			t.Errorf("the last that waits: %v", err)
		}
		given, giveUp = context.WithCancel(t.Context())
		only := get(given)
		giveUp()
		if err := <-only; blames(err) {
			t.Errorf("the last that waits gave up: %v", err)
		}
		if err := <-get(t.Context()); !blames(err) {
			t.Errorf("the attempt had its whole time: %v", err)
		}
		d.end(t, m)
	})
	for name, c := range map[string]struct {
		err    error
		blames bool
	}{
		"refused":    {errors.New("connection refused"), true},
		"no sockets": {fault.New(fault.Resource, "too many open files"), false},
	} {
		m := NewManager(&Config{Log: slog.New(slog.DiscardHandler), Now: time.Now}, &LinkConfig{}, func(context.Context, netip.AddrPort) (net.Conn, error) {
			return nil, c.err
		})
		if _, err := m.Get(t.Context(), hole("127.1.0.1:1")); blames(err) != c.blames || !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
		m.Close()
		if _, err := m.Get(t.Context(), hole("127.1.0.1:1")); blames(err) || !fault.Is(err, fault.Closed) {
			t.Errorf("a closed manager: %v", err)
		}
	}
}
