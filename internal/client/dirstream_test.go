package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/simnet"
	"github.com/chivenet/chive/internal/stream"
)

// TestDirectoryStreamEndsOnce: whatever reason a cache gives for the end of a directory stream,
// nothing is concluded as from an exit: the stream is not opened again, and the circuit goes on. Whoever wants the document asks another cache.
func TestDirectoryStreamEndsOnce(t *testing.T) {
	l := &liar{asked: new(atomic.Int64), mu: new(sync.Mutex)}
	cache := simnet.New(t, simnet.Options{Streams: l}).Target
	network := *netdir.Public()
	network.Testing.AllowPrivateAddresses = true
	network.Fallbacks = []netdir.Fallback{{RSA: cache.RSA, Ed: cache.Ed, ORPorts: cache.Addrs}}
	var armed atomic.Bool
	c := isolated(t, &network, func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
		if !armed.Load() {
			return refuse(ctx, a)
		}
		return simnet.Dial(ctx, a)
	})
	c.cancel(errors.New("the client asks for nothing itself"))
	if _, err := c.dirs.Wait(t.Context()); err == nil {
		t.Fatal("a directory")
	}
	armed.Store(true)
	k := newCaches(c)
	t.Cleanup(k.close)
	for reason := cell.EndReason(0); reason <= cell.EndNotDirectory+1; reason++ {
		m := cell.End{Reason: reason}
		l.say(cell.RelayEnd, m.Append(nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s, err := k.OpenDir(ctx, dirclient.Query{})
		if err != nil {
			t.Fatalf("reason %d: %v", reason, err)
		}
		_, err = io.ReadAll(s)
		var end *stream.EndError
		if reason == cell.EndDone && err == nil {
			end = &stream.EndError{Reason: reason} // an empty answer
		} else if !errors.As(err, &end) {
			t.Fatalf("reason %d: %v", reason, err)
		}
		if n := l.asked.Load(); end.Reason != reason || n != 1 {
			t.Errorf("reason %d: the cache was asked %d times, and the end is %v", reason, n, end)
		}
		k.mu.Lock()
		circ, failed := k.circs[cache.RSA], len(k.failed)
		k.mu.Unlock()
		if circ == nil || circ.Err() != nil || failed != 0 {
			t.Errorf("reason %d: the circuit does not go on", reason)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
