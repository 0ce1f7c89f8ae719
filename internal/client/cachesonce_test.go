package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
	"github.com/chivenet/chive/internal/dirclient"
	"github.com/chivenet/chive/internal/netdir"
	"github.com/chivenet/chive/internal/simnet"
)

// TestOneDirectoryCircuit: requests that begin together share one circuit to their cache. It takes
// requests for ten minutes, and closes after that, not before.
func TestOneDirectoryCircuit(t *testing.T) {
	var opened atomic.Int64
	l := &liar{asked: new(atomic.Int64), mu: new(sync.Mutex)}
	l.say(cell.RelayEnd, (&cell.End{Reason: cell.EndDone}).Append(nil))
	cache := simnet.New(t, simnet.Options{Streams: l, Accepted: func(*channel.CircuitEnd) { opened.Add(1) }}).Target
	n := &netdir.Network{Name: "t", Testing: netdir.Testing{AllowPrivateAddresses: true}, Fallbacks: []netdir.Fallback{{RSA: cache.RSA, Ed: cache.Ed, ORPorts: cache.Addrs}}}
	var armed atomic.Bool
	c := isolated(t, n, func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
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
	defer k.close()
	const many = dirRequests
	var wg sync.WaitGroup
	for range many {
		wg.Go(func() {
			s, err := k.OpenDir(t.Context(), dirclient.Query{Purpose: dirclient.Microdescriptors})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := s.Read(make([]byte, 1)); err == nil {
				t.Error("a stream is open")
			}
			s.Close()
		})
	}
	wg.Wait()
	if n := opened.Load(); n != 1 {
		t.Errorf("%d circuits", n)
	}
	at := time.Now()
	if over := k.over(at.Add(dirLife - time.Second)); len(over) != 0 {
		t.Error("it would close before its time")
	}
	if over := k.over(at.Add(dirLife + time.Second)); len(over) != 1 {
		t.Errorf("%d circuits would close after their time", len(over))
	}
	k.mu.Lock()
	for d := range k.spent {
		d.made = at.Add(-dirLife)
	}
	for _, d := range k.circs {
		d.made = at.Add(-dirLife)
	}
	k.mu.Unlock()
	if s, err := k.OpenDir(t.Context(), dirclient.Query{Purpose: dirclient.Microdescriptors}); err != nil {
		t.Error(err)
	} else {
		s.Close()
	}
	if n := opened.Load(); n != 2 {
		t.Errorf("%d circuits, not another one after the time of the first", n)
	}
}
