package exit

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/cell"
)

// tcpServer runs serve for each connection, and returns its port.
func tcpServer(t *testing.T, serve func(*net.TCPConn)) uint16 {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(c.(*net.TCPConn))
		}
	}()
	return uint16(ln.Addr().(*net.TCPAddr).Port)
}

// TestExitHalfCloses: a destination that answers when the client's bytes have ended is
// heard; and a client is heard that answers when the destination's bytes have ended.
func TestExitHalfCloses(t *testing.T) {
	heard := make(chan string, 1)
	answers := tcpServer(t, func(c *net.TCPConn) {
		defer c.Close()
		b, err := io.ReadAll(c)
		time.Sleep(2 * time.Second) // longer than a client waits that cannot half-close
		fmt.Fprintf(c, "%d bytes, %v", len(b), err)
	})
	asks := tcpServer(t, func(c *net.TCPConn) {
		defer c.Close()
		io.WriteString(c, "question")
		c.CloseWrite()
		b, err := io.ReadAll(c)
		heard <- fmt.Sprint(string(b), err)
	})
	e, c := setup(t, accept(t, "accept *:*"), nil)
	c.Last().Info().HalfClose = true // the simulated relay does not advertise it
	s, err := dial(t, c, "127.0.0.1", answers)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	if err := s.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(s); string(b) != "100000 bytes, <nil>" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if s, err = dial(t, c, "127.0.0.1", asks); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(s); string(b) != "question" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := s.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	if err := s.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "answer<nil>" {
		t.Error(got)
	}
	if err := c.Err(); err != nil {
		t.Error(err)
	}
	e.Close()
	if n, m := e.conns.Load(), len(e.joined); n+int64(m) != 0 {
		t.Errorf("%d places are taken, %d connections are kept", n, m)
	}
}

// TestStockClient: for a client that does not take HALF_CLOSE, the end of the
// destination's bytes ends the stream.
func TestStockClient(t *testing.T) {
	ended := make(chan error, 1)
	port := tcpServer(t, func(c *net.TCPConn) {
		io.WriteString(c, "all")
		c.CloseWrite()
		_, err := io.ReadAll(c)
		ended <- err
	})
	_, c := setup(t, accept(t, "accept *:*"), nil)
	s, err := dial(t, c, "127.0.0.1", port)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(s); string(b) != "all" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestDestinationThatReadsNothing: the connection to it does not outlive the circuit for
// longer than it takes to be sure that it reads nothing.
func TestDestinationThatReadsNothing(t *testing.T) {
	reset := make(chan struct{})
	port := tcpServer(t, func(c *net.TCPConn) { <-reset; c.Close() })
	defer close(reset)
	e, c := setup(t, accept(t, "accept *:*"), nil)
	e.flush = 50 * time.Millisecond
	s, err := dial(t, c, "127.0.0.1", port)
	if err != nil {
		t.Fatal(err)
	}
	s.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
	for err == nil { // until the destination's socket, and all before it, is full
		_, err = s.Write(make([]byte, 64<<10))
	}
	c.Close(cell.DestroyNone, errors.New("the client is gone"))
	for end := time.Now().Add(time.Minute); e.conns.Load() > 0; {
		if time.Now().After(end) {
			t.Fatal("the connection stays")
		}
	}
}
