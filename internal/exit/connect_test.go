package exit

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestSocketsOfOneStream: each address that is tried at the same time for a
// stream counts as a socket; at the exit's limit, only one is tried at a time.
func TestSocketsOfOneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 100
		e := new(Exit)
		addrs := make([]netip.Addr, maxTried)
		var tried atomic.Int64
		hang := func(ctx context.Context, _ netip.Addr) (net.Conn, error) {
			tried.Add(1)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		for _, x := range []struct{ held, tries int }{{1, maxTried}, {most - 2, 3}, {most, 1}} {
			e.conns.Store(int64(x.held))
			tried.Store(0)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			done := make(chan error)
			go func() {
				_, err := e.first(ctx, most, addrs, hang)
				done <- err
			}()
			time.Sleep(29 * time.Second)
			if n := e.conns.Load(); int(tried.Load()) != x.tries || n != int64(x.held+x.tries-1) {
				t.Errorf("%d addresses are tried with %d held: then %d", tried.Load(), x.held, n)
			}
			if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
			e.wg.Wait()
			if n := e.conns.Load(); n != int64(x.held) {
				t.Errorf("%d places are taken, not %d", n, x.held)
			}
		}
		// One after the other, they need one socket.
		e.conns.Store(most)
		refused := errors.New("refused")
		tried.Store(0)
		_, err := e.first(t.Context(), most, addrs, func(context.Context, netip.Addr) (net.Conn, error) {
			tried.Add(1)
			return nil, refused
		})
		if !errors.Is(err, refused) || tried.Load() != maxTried {
			t.Errorf("%d addresses are tried: %v", tried.Load(), err)
		}
	})
}
