package fte

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/chivenet/chive/internal/panics/panicstest"
)

// TestPanicEndsAConnection: a stranger whose probe makes something panic is cut
// off, and its place is free again.
func TestPanicEndsAConnection(t *testing.T) {
	panicstest.Expect(t, 2)
	_, server := chivePair(t, "hex", Protocol{})
	synctest.Test(t, func(t *testing.T) {
		pl := newPipeListener()
		stats := new(Stats)
		n := 0
		l := NewListener(pl, ListenConfig{Transport: server, Stats: stats, MaxPending: 1, Decoy: func(context.Context) (net.Conn, error) {
			if n++; n <= 2 {
				panic("a mistake")
			}
			a, b := net.Pipe()
			go func() { io.ReadFull(b, make([]byte, 5)); b.Write([]byte("decoy")); b.Close() }()
			return a, nil
		}})
		defer l.Close()
		for _, want := range []string{"", "", "decoy"} {
			c := pl.dial()
			go io.WriteString(c, "GET /")
			if b, err := io.ReadAll(c); err != nil || string(b) != want {
				t.Errorf("got %q, %v", b, err)
			}
			c.Close()
			synctest.Wait()
			if n := stats.Pending.Load(); n != 0 {
				t.Errorf("%d are pending", n)
			}
		}
	})
}
