package fte

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slowConn delays what is written after the first Write.
type slowConn struct {
	net.Conn
	wait   time.Duration
	writes int
}

func (c *slowConn) Write(p []byte) (int, error) {
	if c.writes++; c.writes > 1 {
		time.Sleep(c.wait)
	}
	return c.Conn.Write(p)
}

// TestDecoyAndSlowClient: a client whose hello was answered has the whole time of the
// handshake for its first record. A decoy cannot take over what has begun in the format.
func TestDecoyAndSlowClient(t *testing.T) {
	for wait, opens := range map[time.Duration]bool{2 * defaultHold: true, 3 * DefaultHandshakeTimeout: false} {
		synctest.Test(t, func(t *testing.T) {
			client, server := chivePair(t, "hex", Protocol{}) // with the clock of the test
			var dialed atomic.Int64
			pl := newPipeListener()
			l := NewListener(pl, ListenConfig{Transport: server, Decoy: func(context.Context) (net.Conn, error) {
				dialed.Add(1)
				return nil, errors.New("no decoy")
			}})
			defer l.Close()
			c := client.Wrap(&slowConn{Conn: pl.dial(), wait: wait})
			err := c.Handshake()
			synctest.Wait()
			if (err == nil) != opens || (l.cfg.Stats.Opened.Load() == 1) != opens || dialed.Load() != 0 {
				t.Errorf("after %v: %v, %d opened, %d decoys", wait, err, l.cfg.Stats.Opened.Load(), dialed.Load())
			}
			c.Close()
		})
	}
}
