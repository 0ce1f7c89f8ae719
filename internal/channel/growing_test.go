package channel

import (
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// slowConn is a connection whose writes take some time.
type slowConn struct {
	net.Conn
	takes atomic.Int64
}

func (s *slowConn) Write(p []byte) (int, error) {
	if d := s.takes.Load(); d > 0 {
		time.Sleep(time.Duration(d))
	}
	return s.Conn.Write(p)
}

// TestGrowingRecords: after a pause the records of a link are short, and each may be twice as long as the last. That a peer
// reads slowly is no pause, and a long cell stays whole.
func TestGrowingRecords(t *testing.T) {
	k := keys(t)
	synctest.Test(t, func(t *testing.T) {
		x, y := net.Pipe()
		slow := &slowConn{Conn: x}
		line := &onLine{Conn: slow}
		now := func() time.Time { return k.Expires.Add(-time.Hour) }
		l, r, lerr, rerr := shake(t, line, y, ident.RelayID{RSA: k.ID.RSA}, &LinkConfig{Now: now}, &LinkConfig{Now: now, Identity: k})
		if lerr != nil || rerr != nil {
			t.Fatal(lerr, rerr)
		}
		accepted := make(chan *sink, 1)
		cfg := Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)}
		served := cfg
		served.Accept = func(c *CircuitEnd, _ cell.Command, _ []byte) {
			s := newSink()
			c.SetReceiver(s)
			accepted <- s
		}
		a, b := Start(l, &cfg), Start(r, &served)
		c, got := opened(t, a, accepted)
		synctest.Wait()
		line.take()
		sent := 0
		for _, step := range []struct {
			name       string
			rest, slow time.Duration
			cells      int
			want       []int // cells
		}{
			{"after a pause", pause, 0, 100, []int{1, 2, 4, 8, 16, 31, 31, 7}},
			{"at once", 0, 0, 62, []int{31, 31}},
			{"almost a pause", pause - 1, 0, 40, []int{31, 9}},
			{"one after a pause", pause, 0, 1, []int{1}},
			{"some more", 1, 0, 10, []int{2, 4, 4}},
			{"a slow peer", pause, 3 * pause, 100, []int{1, 2, 4, 8, 16, 31, 31, 7}},
		} {
			time.Sleep(step.rest)
			slow.takes.Store(int64(step.slow))
			a.mu.Lock() // nobody writes before all are there
			c.q.push(named(c.ID(), 0, step.cells), false)
			c.queued.Store(int32(c.q.n))
			a.sched.add(c)
			a.wakeLocked()
			a.mu.Unlock()
			time.Sleep(time.Duration(len(step.want)) * step.slow)
			synctest.Wait()
			var records []int
			for _, n := range line.take() {
				records = append(records, n/cell.Len)
			}
			if sent += step.cells; !slices.Equal(records, step.want) || got.count() != sent {
				t.Errorf("%s: records of %d cells, not %d; %d of %d came", step.name, records, step.want, got.count(), sent)
			}
		}
		slow.takes.Store(0)
		time.Sleep(pause)
		if err := c.SendLong(cell.CmdLongCreated2, make([]byte, cell.MaxLong)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if records := line.take(); len(records) != 1 || records[0] < cell.MaxLong {
			t.Errorf("a long cell came in records of %d bytes", records)
		}
		a.Close(fault.New(fault.Closed, "the test is over"))
		<-a.Done()
		<-b.Done()
	})
}
