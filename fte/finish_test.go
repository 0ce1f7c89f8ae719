package fte

import (
	"bytes"
	"io"
	"net"
	"testing"
)

// splitEnd is a connection whose last Write reaches the peer in two parts: the end of the
// text comes only by let.
type splitEnd struct {
	net.Conn
	keep int // bytes of the next Write that wait
	rest []byte
}

func (c *splitEnd) Write(p []byte) (int, error) {
	if c.keep == 0 {
		return c.Conn.Write(p)
	}
	c.rest = bytes.Clone(p[len(p)-c.keep:])
	if _, err := c.Conn.Write(p[:len(p)-c.keep]); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c *splitEnd) CloseWrite() error { return nil }

// let sends what waits, and ends the direction.
func (c *splitEnd) let(t *testing.T) {
	t.Helper()
	if _, err := c.Conn.Write(c.rest); err != nil {
		t.Error(err)
	}
	if err := c.Conn.(halfCloser).CloseWrite(); err != nil {
		t.Error(err)
	}
}

// TestEndOfTextArrivesLate has the symbols that end a word arrive after the record that ends
// the stream. A server that closed with them unread would reset the connection, and lose its
// answer.
func TestEndOfTextArrivesLate(t *testing.T) {
	client, server := chivePair(t, "manual-http", Protocol{})
	a, b := tcpPair(t)
	raw := &splitEnd{Conn: a}
	c, s := client.Wrap(raw), server.Wrap(b)
	up, down := noise(1000, 1), noise(4<<20, 2)
	answered := make(chan error, 1)
	go func() {
		got, err := io.ReadAll(s)
		if err == nil && !bytes.Equal(got, up) {
			t.Error("the request is changed")
		}
		if err == nil {
			if _, err = s.Write(down); err == nil {
				err = s.CloseWrite()
			}
		}
		s.Close()
		answered <- err
	}()
	if _, err := c.Write(up); err != nil {
		t.Fatal(err)
	}
	raw.keep = 4 // of the end of "... HTTP/1.1\r\n\r\n"
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	raw.keep = 0
	let := make(chan struct{})
	go func() { raw.let(t); close(let) }()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, down) {
		t.Errorf("%d bytes of %d of the answer arrive, %v", len(got), len(down), err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	<-let
}
