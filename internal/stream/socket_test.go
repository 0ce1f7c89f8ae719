package stream_test

import (
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/simnet"
)

// tcpPair returns the two ends of a TCP connection with small buffers, so that
// either side finds them full or empty now and then.
func tcpPair(t testing.TB) (program, front *net.TCPConn) {
	t.Helper()
	program, front = ownedPair(t)
	t.Cleanup(func() { program.Close(); front.Close() })
	return program, front
}

// ownedPair is tcpPair for a test that closes both ends, or gives them away.
func ownedPair(t testing.TB) (program, front *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	program, front = a.(*net.TCPConn), b.(*net.TCPConn)
	for _, c := range []*net.TCPConn{program, front} {
		c.SetReadBuffer(256 << 10)
		c.SetWriteBuffer(128 << 10)
		c.SetDeadline(time.Now().Add(time.Minute))
	}
	return program, front
}

// join moves bytes between a program's socket and a stream, as a local port does.
func join(front *net.TCPConn, s interface {
	io.ReaderFrom
	io.WriterTo
	CloseWrite() error
}) (wait func() (up, down int64, err error)) {
	var wg sync.WaitGroup
	var up, down int64
	var errs [2]error
	wg.Go(func() {
		if up, errs[0] = s.ReadFrom(front); errs[0] == nil {
			errs[0] = s.CloseWrite()
		}
	})
	wg.Go(func() { down, errs[1] = s.WriteTo(front); front.CloseWrite() })
	return func() (int64, int64, error) { wg.Wait(); return up, down, errors.Join(errs[:]...) }
}

// TestSockets: an echo through a program's socket, whose buffers are full and
// empty by turns, is the same bytes, and both directions count and end.
func TestSockets(t *testing.T) {
	a, b := simnet.New(t, simnet.Options{}), simnet.New(t, simnet.Options{})
	m := client(t)
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			s := dial(t, build(t, m, o, a, b), "echo")
			program, front := tcpPair(t)
			wait := join(front, s)
			const size = 2 << 20
			sent, got := sha256.New(), sha256.New()
			var wg sync.WaitGroup
			wg.Go(func() {
				r := rand.New(rand.NewPCG(1, 2))
				p := make([]byte, 100<<10)
				for left := size; left > 0; {
					n := min(left, 1+r.IntN(len(p)))
					for i := range p[:n] {
						p[i] = byte(r.Uint32())
					}
					sent.Write(p[:n])
					if _, err := program.Write(p[:n]); err != nil {
						t.Error(err)
						return
					}
					left -= n
				}
			})
			r := rand.New(rand.NewPCG(3, 4))
			p := make([]byte, 40<<10)
			for left := size; left > 0; {
				n, err := program.Read(p[:1+r.IntN(len(p))])
				if err != nil {
					t.Fatal(left, err)
				}
				got.Write(p[:n])
				left -= n
			}
			wg.Wait()
			if string(sent.Sum(nil)) != string(got.Sum(nil)) {
				t.Fatal("the echo differs")
			}
			program.CloseWrite()
			if n, err := program.Read(p); n != 0 || err != io.EOF {
				t.Fatal(n, err)
			}
			// The echo waits for an end that only a half-close could show it.
			if up, down, err := wait(); up != size || down != size || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatal(up, down, err)
			}
		})
	}
}

// TestSocketThatResets: the program's connection breaks while nobody waits to
// write to it; WriteTo says so.
func TestSocketThatResets(t *testing.T) {
	a := simnet.New(t, simnet.Options{})
	s := dial(t, build(t, client(t), kinds["vegas cgo"], a), "echo")
	program, front := tcpPair(t)
	done := make(chan error, 1)
	go func() { _, err := s.WriteTo(front); done <- err }()
	if _, err := s.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(program, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	program.SetLinger(0)
	program.Close()
	for { // the kernel learns of the reset in its own time
		if _, err := s.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}

// TestSocketAndDeadline: a deadline ends a WriteTo that waits, and the stream
// goes on.
func TestSocketAndDeadline(t *testing.T) {
	a := simnet.New(t, simnet.Options{})
	s := dial(t, build(t, client(t), kinds["vegas cgo"], a), "echo")
	program, front := tcpPair(t)
	s.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := s.WriteTo(front); err == nil {
		t.Fatal("the deadline passed")
	}
	s.SetReadDeadline(time.Time{})
	if _, err := s.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 4)
	if _, err := io.ReadFull(s, p); err != nil || string(p) != "ping" {
		t.Fatal(string(p), err)
	}
	go s.WriteTo(front)
	if _, err := s.Write([]byte("pong")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(program, p); err != nil || string(p) != "pong" {
		t.Fatal(string(p), err)
	}
}
