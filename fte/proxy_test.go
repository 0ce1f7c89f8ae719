package fte

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/fault"
)

// pairs returns both sides of the classic protocol and of each mode.
func pairs(t *testing.T) map[string][2]Transport {
	t.Helper()
	cli, err := Classic{}.Dialer()
	if err != nil {
		t.Fatal(err)
	}
	srv, err := Classic{}.Acceptor()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][2]Transport{"classic": {cli, srv}}
	for m := range modes {
		c, s := chivePair(t, "words", Protocol{Mode: m})
		all[m.String()] = [2]Transport{c, s}
	}
	return all
}

// chain is a client's and a server's proxy before a listener of the test's.
// Connections to the first come out of the second; cancel stops the server's.
type chain struct {
	at     string // where the client's proxy listens
	behind net.Listener
	server *Proxy
	cancel context.CancelFunc
	served chan error
}

func newChain(t *testing.T, p [2]Transport, maxConns int) *chain {
	t.Helper()
	c := &chain{behind: loopback(t), served: make(chan error, 1)}
	l := NewListener(loopback(t), ListenConfig{Transport: p[1]})
	c.server = &Proxy{Dial: dialTo(c.behind.Addr().String()), MaxConns: maxConns, Stats: new(Stats)}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go func() { c.served <- c.server.Serve(ctx, l) }()
	t.Cleanup(func() { cancel(); l.Close() })
	front := loopback(t)
	startProxy(t, &Proxy{Dial: dialTo(l.Addr().String()), Dialed: p[0]}, front)
	c.at = front.Addr().String()
	return c
}

// open returns both ends of a connection through the chain.
func (c *chain) open(t *testing.T) (near, far net.Conn) {
	t.Helper()
	near, err := net.Dial("tcp", c.at)
	if err != nil {
		t.Fatal(err)
	}
	far, err = c.behind.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []net.Conn{near, far} {
		x.SetDeadline(time.Now().Add(60 * time.Second))
		t.Cleanup(func() { x.Close() })
	}
	return near, far
}

// TestHalfClose ends one way, and uses the other after that.
func TestHalfClose(t *testing.T) {
	for name, p := range pairs(t) {
		t.Run(name, func(t *testing.T) {
			near, far := newChain(t, p, 0).open(t)
			for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
				msg := noise(100_000, 1)
				go func() {
					way[0].Write(msg)
					way[0].(*net.TCPConn).CloseWrite()
				}()
				if got, err := io.ReadAll(way[1]); err != nil || !bytes.Equal(got, msg) {
					t.Errorf("%d of %d bytes, %v", len(got), len(msg), err)
				}
			}
		})
	}
}

// TestDrain stops a server's proxy: what is open goes on until it ends, or
// until the time for it is over.
func TestDrain(t *testing.T) {
	for name, p := range pairs(t) {
		t.Run(name, func(t *testing.T) {
			for _, finish := range []bool{true, false} {
				c := newChain(t, p, 0)
				near, far := c.open(t)
				c.cancel()
				if err := <-c.served; err != nil {
					t.Fatal(err)
				}
				msg := noise(50_000, 3)
				go near.Write(msg)
				got := make([]byte, len(msg))
				if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, msg) {
					t.Fatalf("an open connection does not go on: %v", err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				if finish {
					near.Close()
					far.Close()
					if err := c.server.Drain(ctx); err != nil {
						t.Error(err)
					}
				} else {
					cancel()
					if err := c.server.Drain(ctx); !fault.Is(err, fault.Timeout) {
						t.Error("what was cut is not told:", err)
					}
					if _, err := far.Read(got); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
						t.Error("the connection is still open:", err)
					}
				}
				cancel()
				if n := c.server.Stats.Active.Load(); n != 0 {
					t.Errorf("%d connections are left", n)
				}
			}
		})
	}
}

// TestDrainHalfClosed: a program that has sent its end, and a server that says
// nothing, do not outlive the time for it.
func TestDrainHalfClosed(t *testing.T) {
	for name, p := range pairs(t) {
		t.Run(name, func(t *testing.T) {
			c := newChain(t, p, 0)
			near, far := c.open(t)
			near.(*net.TCPConn).CloseWrite()
			if n, err := far.Read(make([]byte, 1)); err != io.EOF {
				t.Fatalf("%d bytes, %v", n, err)
			}
			c.cancel()
			if err := <-c.served; err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			ended := make(chan error, 1)
			go func() { ended <- c.server.Drain(ctx) }()
			select {
			case err := <-ended:
				if !fault.Is(err, fault.Timeout) {
					t.Error(err)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("Drain waits for the silent server")
			}
		})
	}
}

// TestDrainWhileDialing: a server that never answers does not delay the end.
func TestDrainWhileDialing(t *testing.T) {
	client, _ := chivePair(t, "words", Protocol{})
	silent, l := loopback(t), loopback(t)
	p := &Proxy{Dial: dialTo(silent.Addr().String()), Dialed: client, DialTimeout: time.Hour}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, l) }()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	cancel()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	if err := p.Drain(ctx); !fault.Is(err, fault.Timeout) { // its time is over before it begins
		t.Error(err)
	}
	if n := p.Stats.DialFailed.Load(); n != 1 {
		t.Errorf("%d dials have failed", n)
	}
}

// TestMaxConns: a connection beyond the bound waits until there is room.
func TestMaxConns(t *testing.T) {
	c := newChain(t, pairs(t)["strict"], 1)
	near, far := c.open(t)
	second, err := net.Dial("tcp", c.at)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := second.Write([]byte("second")); err != nil {
		t.Fatal(err)
	}
	// What the first does now comes after the second has knocked.
	go near.Write([]byte("first"))
	got := make([]byte, 6)
	if _, err := io.ReadFull(far, got[:5]); err != nil {
		t.Fatal(err)
	}
	if n := c.server.Stats.Active.Load(); n != 1 {
		t.Errorf("%d connections are carried", n)
	}
	near.Close()
	far.Close()
	far, err = c.behind.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	far.SetDeadline(time.Now().Add(60 * time.Second))
	if _, err := io.ReadFull(far, got); err != nil || string(got) != "second" {
		t.Errorf("%q, %v", got, err)
	}
}
