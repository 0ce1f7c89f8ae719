package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/chivenet/chive/program/programtest"
)

// TestLane: bytes leave at the rate, and a pause is not made up for.
func TestLane(t *testing.T) {
	l := &lane{rate: 1000}
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		at   time.Duration
		n    int
		left time.Duration
	}{{0, 500, 500 * time.Millisecond}, {0, 500, time.Second}, {100 * time.Millisecond, 1000, 2 * time.Second}, {10 * time.Second, 100, 10100 * time.Millisecond}} {
		if left := l.send(start.Add(c.at), c.n).Sub(start); left != c.left {
			t.Errorf("%d bytes at %v left at %v, not %v", c.n, c.at, left, c.left)
		}
	}
}

// TestLine: bytes come through both ways, whole and in order, and ends, too.
func TestLine(t *testing.T) {
	programtest.NoLeaks(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	l, err := openLine(time.Millisecond, 50e6)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sent := make([]byte, 300_000)
	rand.Read(sent)
	served := make(chan error, 1)
	go func() {
		c, err := ln.Accept()
		if err == nil {
			_, err = io.Copy(c, c) // until the other side ends
			c.Close()
		}
		served <- err
	}()
	c, err := l.dial(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() {
		c.Write(sent)
		c.(*net.TCPConn).CloseWrite()
	}()
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back of %d, %v", len(got), len(sent), err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestLineRefuses: what is no request for a connection, an end that is not there, and what
// comes after the line's end.
func TestLineRefuses(t *testing.T) {
	programtest.NoLeaks(t)
	l, err := openLine(0, 1e6)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", l.addr())
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if got, err := io.ReadAll(c); err != nil || !strings.Contains(string(got), "405") {
		t.Errorf("%q, %v", got, err)
	}
	c.Close()
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	if _, err := l.dial(t.Context(), "tcp", nobody.Addr().String()); err == nil || !strings.Contains(err.Error(), "502") {
		t.Error(err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	open, err := l.dial(t.Context(), "tcp", silent.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := open.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlasts its line")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.dial(ctx, "tcp", silent.Addr().String()); err == nil {
		t.Error("a connection through a line that is closed")
	}
}
