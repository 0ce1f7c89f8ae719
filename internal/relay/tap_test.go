package relay

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
	"github.com/chivenet/chive/internal/channel"
)

// tapConn counts what passes.
type tapConn struct {
	net.Conn
	below func() net.Conn
	read  func(int)
}

func (c tapConn) NetConn() net.Conn { return c.below() }

func (c tapConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read(n)
	return n, err
}

// TestTap: the laboratory's tap sees every link before its cells, and every message that the relay
// recognises, and decides about the subprotocols of the descriptor.
func TestTap(t *testing.T) {
	var mu sync.Mutex
	links, bytes := 0, 0
	heard := map[cell.RelayCommand]int{}
	const protocols = "Link=4-5 Relay=2-4"
	v := startVictim(t, func(c *Config) {
		c.Tap = &Tap{
			Protocols: protocols,
			Link: func(l *channel.Link) {
				mu.Lock()
				links++
				mu.Unlock()
				l.Conn = tapConn{l.Conn, l.Conn.NetConn, func(n int) {
					mu.Lock()
					bytes += n
					mu.Unlock()
				}}
			},
			Heard: func(home *channel.CircuitEnd, m cell.RelayMsg) {
				mu.Lock()
				defer mu.Unlock()
				if home.ID() != 0 {
					heard[m.Cmd]++
				}
			},
		}
	})
	if n := begun(t, v.connect(t, nil).circuit(), 3); n != 0 {
		t.Errorf("%d streams were refused", n)
	}
	mu.Lock()
	defer mu.Unlock()
	if links != 1 || bytes < 3*cell.Len || heard[cell.RelayBeginDir] != 3 {
		t.Errorf("%d links, %d bytes, messages %v", links, bytes, heard)
	}
	d, _, err := v.describe(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if d.Proto != protocols {
		t.Errorf("the descriptor says %q", d.Proto)
	}
}
