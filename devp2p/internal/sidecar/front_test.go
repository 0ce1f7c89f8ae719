package sidecar

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chivenet/chive/devp2p/internal/nodetest"
	"github.com/chivenet/chive/program/programtest"
)

// TestFront plays a client of the onion.
func TestFront(t *testing.T) {
	node, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	nw := &fakeNet{}
	f := &front{Onions: nw, key: nodetest.Key(t), node: node.Addr().String, maxConns: 2, perCircuit: 1, onEnd: func() {}, log: slog.New(slog.DiscardHandler)}
	ln, err := f.ListenOnion(t.Context(), "", 30303)
	if err != nil {
		t.Fatal(err)
	}
	dial := func(first []byte) net.Conn {
		c, err := nw.DialOnion(t.Context(), ln.Onion().Addr()+":30303", "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := c.Write(first); err != nil {
			t.Fatal(err)
		}
		return c
	}
	// What the sidecar's key does not open goes to the node, unchanged, and back.
	first := append([]byte{0, 200}, make([]byte, 200)...)
	c := dial(append(first, "more"...))
	got, err := node.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close() // not before: the garbage collector closes what nobody holds
	b := make([]byte, len(first)+4)
	if _, err := io.ReadFull(got, b); err != nil || string(b) != string(first)+"more" {
		t.Fatalf("%q, %v", b, err)
	}
	if _, err := got.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, b[:6]); err != nil || string(b[:6]) != "answer" {
		t.Fatalf("%q, %v", b[:6], err)
	}
	// A first message that is too large ends the connection.
	c = dial([]byte{0xff, 0xff})
	if _, err := c.Read(b); err == nil {
		t.Error("a first message of 65,535 bytes was taken")
	}
	// The third connection to the node is one too many.
	dial(first)
	second, err := node.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	c = dial(first)
	if _, err := c.Read(b); err == nil {
		t.Error("a third connection was taken")
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if n := f.open(); n != 0 {
		t.Errorf("%d connections after the end", n)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after the end: %v", err)
	}
}

// TestPerCircuit counts connections of one circuit.
func TestPerCircuit(t *testing.T) {
	f := &front{maxConns: 10, perCircuit: 2, onEnd: func() {}}
	c := func() net.Conn { a, _ := net.Pipe(); return a }
	first := c()
	for _, ok := range []error{f.enter(first, "1"), f.enter(c(), "1"), f.enter(c(), "2")} {
		if ok != nil {
			t.Error(ok)
		}
	}
	if f.enter(c(), "1") == nil {
		t.Error("a third connection over one circuit was taken")
	}
	f.leave(first, "1")
	if err := f.enter(c(), "1"); err != nil {
		t.Error(err)
	}
}

// onCircuit is a connection over a circuit.
type onCircuit struct {
	net.Conn
	name string
}

func (c onCircuit) Circuit() string { return c.name }

// TestUnsorted: one circuit cannot take all places of connections without a first message,
// and after the end no connection goes to the node.
func TestUnsorted(t *testing.T) {
	f := &front{maxConns: 10, perCircuit: 2, onEnd: func() {}, node: func() string { return "" }}
	conn := func(name string) net.Conn {
		a, _ := net.Pipe()
		return onCircuit{a, name}
	}
	first := conn("1")
	for i := range maxUnsorted {
		c := conn("1")
		if i == 0 {
			c = first
		}
		if f.admit(c) != (i < f.perCircuit) {
			t.Fatalf("connection %d of one circuit", i)
		}
	}
	f.sorted(first)
	if !f.admit(conn("1")) {
		t.Error("a place is not given back")
	}
	// When all places are taken, the circuit with the most connections loses one.
	for i := range maxUnsorted - 1 {
		if !f.admit(conn(string(rune('a' + i)))) {
			t.Error("others find no place")
		}
	}
	if len(f.unsorted) != maxUnsorted || f.unsorted[0].(onCircuit).name != "1" || f.unsorted[1].(onCircuit).name == "1" {
		t.Errorf("%d wait", len(f.unsorted))
	}
	f.closeConns()
	a, b := net.Pipe()
	defer b.Close()
	if err := f.serve(a, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a connection after the end: %v", err)
	}
}

// TestFlood: where nothing tells clients apart, an honest one gets in while another one
// opens connections as fast as it can, and says nothing on them.
func TestFlood(t *testing.T) {
	programtest.NoLeaks(t)
	node, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	nw := &fakeNet{}
	f := &front{Onions: nw, key: nodetest.Key(t), node: node.Addr().String, maxConns: 10, perCircuit: 1, onEnd: func() {}, log: slog.New(slog.DiscardHandler)}
	ln, err := f.ListenOnion(t.Context(), "", 30303)
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Onion().Addr() + ":30303"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var flood sync.WaitGroup
	full := make(chan struct{})
	var opened atomic.Int64
	for range 2 * maxUnsorted {
		flood.Go(func() {
			for ctx.Err() == nil {
				c, err := nw.DialOnion(ctx, addr, "")
				if err != nil {
					return
				}
				if opened.Add(1) == 2*maxUnsorted {
					close(full)
				}
				stop := context.AfterFunc(ctx, func() { c.Close() })
				c.Read(make([]byte, 1)) // until it is closed
				stop()
				c.Close()
			}
		})
	}
	<-full
	first := append([]byte{0, 200}, make([]byte, 200)...)
	for tries := 1; ; tries++ {
		c, err := nw.DialOnion(ctx, addr, "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Write(first)
		if err == nil {
			node.(*net.TCPListener).SetDeadline(time.Now().Add(time.Second))
			var got net.Conn
			if got, err = node.Accept(); err == nil {
				got.Close()
			}
		}
		c.Close()
		if err == nil {
			t.Logf("the honest client is there after %d tries, beside %d connections", tries, opened.Load())
			break
		}
		if tries == 5 {
			t.Fatalf("%d tries: %v", tries, err)
		}
	}
	f.mu.Lock()
	if len(f.unsorted) > maxUnsorted {
		t.Errorf("%d wait", len(f.unsorted))
	}
	f.mu.Unlock()
	cancel()
	flood.Wait()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
}
