package fte

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
)

// TestCutIsNoEnd: a program learns that its connection was cut. What it has received
// would otherwise look like the whole.
func TestCutIsNoEnd(t *testing.T) {
	for name, p := range pairs(t) {
		for how, cut := range map[string]func(c *chain, far net.Conn){
			"by the other program": func(_ *chain, far net.Conn) {
				far.(*net.TCPConn).SetLinger(0)
				far.Close()
			},
			"at the end of the server's time": func(c *chain, _ net.Conn) {
				c.cancel()
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				c.server.Drain(ctx)
			},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				c := newChain(t, p, 0)
				near, far := c.open(t)
				half := noise(50_000, 1)
				go far.Write(half)
				if _, err := io.ReadFull(near, make([]byte, len(half))); err != nil {
					t.Fatal(err)
				}
				cut(c, far)
				if n, err := near.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%d bytes, %v", n, err)
				}
			})
		}
	}
}

// TestCutClientIsNoEnd is the same for a client's proxy that ends.
func TestCutClientIsNoEnd(t *testing.T) {
	near, in := tcpPair(t)
	p := new(Proxy)
	p.track(in, nil)
	p.cut()
	if n, err := near.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, %v", n, err)
	}
}
