package channel

import (
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/ident"
)

// slowReader makes a channel of m's whose peer has done the handshake and reads
// nothing more.
func slowReader(t *testing.T, m *Manager) *Channel {
	t.Helper()
	k := keys(t)
	now := func() time.Time { return k.Expires.Add(-time.Hour) }
	x, y := net.Pipe()
	l, r, lerr, rerr := shake(t, x, y, ident.RelayID{RSA: k.ID.RSA}, &LinkConfig{Now: now}, &LinkConfig{Now: now, Identity: k})
	if lerr != nil || rerr != nil {
		t.Fatal(lerr, rerr)
	}
	t.Cleanup(func() { l.Conn.NetConn().Close() })
	ch, err := m.Adopt(r)
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// TestRelieve: when the cells that wait take too much memory, the circuits with
// the most are closed, on whatever channel, and both sides are told why; the
// others keep theirs.
func TestRelieve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewManager(&Config{Log: slog.New(slog.DiscardHandler), Now: time.Now}, &LinkConfig{}, nil)
		var chans []*Channel
		var circs []*Circ
		var sinks []*sink
		// One channel has what a flood has left, another a bit of everybody's.
		for _, queues := range [][]int{{2000, 10, 1500}, {5, 300}} {
			ch := slowReader(t, m)
			chans = append(chans, ch)
			for _, n := range queues {
				s := newSink()
				c, err := ch.Open(s)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Send(numbered(0, n)); err != nil {
					t.Fatal(err)
				}
				circs, sinks = append(circs, c), append(sinks, s)
			}
		}
		synctest.Wait() // the writers have what a record takes
		total := int64(0)
		for _, c := range circs {
			total += int64(c.Queued()) * cell.Len
		}
		if killed, freed := m.Relieve(total); killed != 0 || freed != 0 {
			t.Fatalf("%d were killed at the limit", killed)
		}
		// Nine tenths of the limit are to be left: the first goes, not the second.
		greediest := int64(circs[0].Queued()) * cell.Len
		killed, freed := m.Relieve(total - 1)
		if killed != 1 || freed != greediest {
			t.Fatalf("%d were killed, of %d bytes", killed, freed)
		}
		// And now everything but the small ones.
		if killed, _ = m.Relieve(400 * cell.Len); killed != 1 {
			t.Fatalf("%d were killed", killed)
		}
		for i, s := range sinks {
			dead := i == 0 || i == 2
			select {
			case <-s.ended:
				if !dead || s.reason != cell.DestroyResourceLimit || !fault.Is(s.err, fault.Resource) {
					t.Errorf("circuit %d was killed: %v %v", i, s.reason, s.err)
				}
			default:
				if dead {
					t.Errorf("circuit %d does not know", i)
				}
			}
			if err := circs[i].Send(numbered(0, 1)); (err != nil) != dead {
				t.Errorf("circuit %d: %v", i, err)
			}
		}
		for i, ch := range chans {
			if n := len(ch.urgent) / cell.Len; n != 2-2*i || n > 0 && cell.Cmd(ch.urgent) != cell.CmdDestroy {
				t.Errorf("%d DESTROYs are under way on channel %d", n, i)
			}
		}
		m.Close()
	})
}
