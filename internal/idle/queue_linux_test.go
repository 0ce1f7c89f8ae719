package idle

import (
	"net"
	"testing"
)

type deaf struct{}

func (deaf) Wake() {}

// TestUsedConnStays: a connection that is written to again and again is in the queue once,
// and does not leave net because it rested before those writes.
func TestUsedConnStays(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var c Conn
	c.Init(near, deaf{})
	defer c.Close()
	if err := c.Rest(); err != nil {
		t.Fatal(err)
	}
	turn := c.turn
	for range 100 {
		if _, _, err := c.Hold(false); err != nil {
			t.Fatal(err)
		}
		c.Release()
	}
	queued := 0
	all.mu.Lock()
	for _, r := range all.queue {
		if r.c == &c {
			queued++
		}
	}
	all.mu.Unlock()
	if queued > 1 {
		t.Errorf("the queue has the connection %d times", queued)
	}
	c.leave(turn)
	c.mu.Lock()
	left := c.alone != none
	c.mu.Unlock()
	if left {
		t.Error("the connection left net at a time that counts from before its last use")
	}
}

// TestReaderRestsNot: a connection that a goroutine reads from does not rest: at its end it
// would wake nobody for ever.
func TestReaderRestsNot(t *testing.T) {
	a, b := pair(t)
	c, woken := resting(t, b)
	c.rest(t)
	if _, _, err := c.Hold(true); err != nil {
		t.Fatal(err)
	}
	a.CloseWrite()
	<-woken // the rest before told of the end
	c.Release()
	c.mu.Lock()
	turn, queued := c.turn, c.queued
	c.mu.Unlock()
	c.leave(turn)
	if c.isAlone() {
		t.Errorf("it left net; queued: %v", queued)
	}
}
