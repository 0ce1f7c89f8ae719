package fte

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

// noise returns n reproducible random bytes.
func noise(n int, seed uint64) []byte {
	var s [32]byte
	s[0] = byte(seed)
	s[1] = byte(seed >> 8)
	b := make([]byte, n)
	rand.NewChaCha8(s).Read(b)
	return b
}

// tcpPair returns the two ends of a loopback connection.
func tcpPair(t testing.TB) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// listen returns a loopback listener that the test closes.
func loopback(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// dialTo returns a Dial function for an address.
func dialTo(addr string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
}

// startProxy serves on l until the test ends.
func startProxy(t testing.TB, p *Proxy, l net.Listener) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		p.Drain(ctx) // whatever is open belongs to a test that is over
	})
}

// exchangeServer answers every connection: it reads n bytes, sends their
// SHA-256, and then n bytes of its own.
func exchangeServer(t testing.TB, n int) net.Listener {
	l := loopback(t)
	back := noise(n, 2)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				h := sha256.New()
				if _, err := io.CopyN(h, c, int64(n)); err != nil {
					return
				}
				if _, err := c.Write(h.Sum(nil)); err != nil {
					return
				}
				if _, err := c.Write(back); err != nil {
					return
				}
				io.Copy(io.Discard, c) // the client closes first
			}()
		}
	}()
	return l
}

// exchange is a client of exchangeServer and checks both hashes.
func exchange(t testing.TB, addr string, n int) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(120 * time.Second))
	up := noise(n, 1)
	if _, err := c.Write(up); err != nil {
		t.Fatal("sending:", err)
	}
	got := make([]byte, sha256.Size)
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal("the hash of what arrived:", err)
	}
	if want := sha256.Sum256(up); !bytes.Equal(got, want[:]) {
		t.Fatal("what was sent arrived changed")
	}
	h := sha256.New()
	if _, err := io.CopyN(h, c, int64(n)); err != nil {
		t.Fatal("receiving:", err)
	}
	if want := sha256.Sum256(noise(n, 2)); !bytes.Equal(h.Sum(nil), want[:]) {
		t.Fatal("what was received is changed")
	}
}

// halfPipe is a pipe with half-close.
func halfPipe() (a, b net.Conn) {
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	return halfEnd{r: r1, w: w2}, halfEnd{r: r2, w: w1}
}

type halfEnd struct {
	net.Conn // nil
	r        *io.PipeReader
	w        *io.PipeWriter
}

func (e halfEnd) Read(p []byte) (int, error)  { return e.r.Read(p) }
func (e halfEnd) Write(p []byte) (int, error) { return e.w.Write(p) }
func (e halfEnd) CloseWrite() error           { return e.w.Close() }
func (e halfEnd) Close() error                { return errors.Join(e.w.Close(), e.r.Close()) }
