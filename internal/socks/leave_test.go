package socks

import (
	"context"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// endless is a Dialer that never answers: what it does ends with its context.
type endless struct {
	begun chan Request
	ended chan error
}

func newEndless() *endless { return &endless{make(chan Request, 99), make(chan error, 99)} }

func (e *endless) wait(ctx context.Context, req Request) error {
	e.begun <- req
	<-ctx.Done()
	err := context.Cause(ctx)
	e.ended <- err
	return err
}

func (e *endless) Dial(ctx context.Context, req Request) (net.Conn, error) {
	return nil, e.wait(ctx, req)
}

func (e *endless) Resolve(ctx context.Context, req Request) ([]Answer, error) {
	return nil, e.wait(ctx, req)
}

func (e *endless) ResolvePTR(ctx context.Context, _ netip.Addr, req Request) ([]Answer, error) {
	return nil, e.wait(ctx, req)
}

// asking are a port's requests, each with what the program hears before the request's answer.
var asking = map[string]struct {
	make  func(Config) *Server
	greet []byte // sent first; the answer is five, zero
	ask   []byte
	first byte // of every answer
	ok    []byte
}{
	"socks5": {NewSOCKS, []byte{5, 1, 0}, request5(1, "host", 80), 5, ok5},
	"socks4": {NewSOCKS, nil, append([]byte{4, 1, 0, 80, 0, 0, 0, 1, 'u', 0}, "host\x00"...), 0, []byte{0, 90, 0, 0, 0, 0, 0, 0}},
	"http":   {NewHTTP, nil, []byte("CONNECT host:80 HTTP/1.1\r\nHost: host:80\r\n\r\n"), 'H', []byte("HTTP/1.0 200 OK\r\n" + httpHeaders + "\r\n")},
	"lookup": {NewSOCKS, []byte{5, 1, 0}, request5(0xf0, "host", 0), 5, nil},
	"ptr":    {NewSOCKS, []byte{5, 1, 0}, append([]byte{5, 0xf1, 0, 1}, 192, 0, 2, 1, 0, 0), 5, nil},
}

// halfCloser is a connection of TCP, or of a unix socket.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// ports serves s on TCP and on a unix socket, and calls f with a way to connect to each.
func ports(t *testing.T, make func() *Server, f func(t *testing.T, s *Server, connect func() halfCloser)) {
	t.Run("tcp", func(t *testing.T) {
		s := make()
		at := start(t, s)
		f(t, s, func() halfCloser { return dialTCP(t, at) })
	})
	if runtime.GOOS == "windows" {
		return
	}
	t.Run("unix", func(t *testing.T) {
		s := make()
		path := filepath.Join(t.TempDir(), "port")
		l, err := Listen("unix:" + path)
		if err != nil {
			t.Fatal(err)
		}
		served := goServe(s, l)
		t.Cleanup(func() { s.Close(); <-served })
		f(t, s, func() halfCloser {
			c, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			c.SetDeadline(time.Now().Add(time.Minute))
			return c.(*net.UnixConn)
		})
	})
}

func goServe(s *Server, l net.Listener) chan error {
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	return served
}

// TestProgramLeaves: what a program has asked for ends when it goes, by whatever it does to go,
// and so does its place.
func TestProgramLeaves(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere, an end after early data does not tell whether the program is there")
	}
	ways := map[string]struct {
		early int // bytes that the program sends before its answer
		leave func(c halfCloser)
	}{
		"closes":                    {0, func(c halfCloser) { c.Close() }},
		"closes after early data":   {10, func(c halfCloser) { c.Close() }},
		"closes after much data":    {3 * handshakeBuffer, func(c halfCloser) { c.Close() }},
		"resets":                    {0, reset},
		"resets after much data":    {3 * handshakeBuffer, reset},
		"resets after a half-close": {10, func(c halfCloser) { c.CloseWrite(); reset(c) }},
	}
	for name, a := range asking {
		for way, w := range ways {
			t.Run(name+" "+way, func(t *testing.T) {
				e := newEndless()
				ports(t, func() *Server { return a.make(Config{Dialer: e}) }, func(t *testing.T, s *Server, connect func() halfCloser) {
					c := connect()
					if a.greet != nil {
						say(t, c, a.greet...)
						hear(t, c, 5, 0)
					}
					say(t, c, a.ask...)
					<-e.begun
					say(t, c, make([]byte, w.early)...)
					w.leave(c)
					select {
					case err := <-e.ended:
						if err != errGone {
							t.Errorf("it ended by: %v", err)
						}
					case <-time.After(time.Minute):
						t.Fatal("the request outlives the program")
					}
					s.handlersDone(t)
				})
			})
		}
	}
}

func reset(c halfCloser) {
	if c, ok := c.(*net.TCPConn); ok {
		c.SetLinger(0)
	}
	c.Close()
}

// TestHalfCloseWaits: a program that ends its side, and means it, gets its answer, whole.
func TestHalfCloseWaits(t *testing.T) {
	for name, a := range asking {
		if a.ok == nil {
			continue
		}
		for _, early := range []string{"", "early data"} {
			t.Run(name+" "+early, func(t *testing.T) {
				n := &network{gate: make(chan struct{}, 1), dialling: make(chan struct{}, 1), hosts: map[string]string{"host": peer(t, echo)}}
				ports(t, func() *Server { return a.make(Config{Dialer: n}) }, func(t *testing.T, s *Server, connect func() halfCloser) {
					c := connect()
					if a.greet != nil {
						say(t, c, a.greet...)
						hear(t, c, 5, 0)
					}
					say(t, c, a.ask...)
					<-n.dialling
					say(t, c, []byte(early)...)
					if early == "" && runtime.GOOS != "linux" {
						t.Skip("who has sent nothing is taken for gone here")
					}
					c.CloseWrite()
					if runtime.GOOS == "linux" {
						hear(t, c, a.first) // the server has seen the end, and asks
					}
					n.gate <- struct{}{}
					want := string(a.ok) + early
					if runtime.GOOS == "linux" {
						want = want[1:]
					}
					if got, err := io.ReadAll(c); string(got) != want || err != nil {
						t.Errorf("heard %q (%v), want %q", got, err, want)
					}
					c.Close()
					s.handlersDone(t)
				})
			})
		}
	}
}

// TestDNSProgramLeaves: a question by TCP ends when the program resets its connection.
func TestDNSProgramLeaves(t *testing.T) {
	e := newEndless()
	s := NewDNS(Config{Dialer: e})
	c := dialTCP(t, start(t, s))
	say(t, c, streamed(ask(t, "host.", dnsmessage.TypeA))...)
	<-e.begun
	reset(c)
	if err := <-e.ended; err != errGone {
		t.Errorf("it ended by: %v", err)
	}
	s.handlersDone(t)
}

// streamed puts a question's length before it, as TCP needs it.
func streamed(b []byte) []byte { return append([]byte{byte(len(b) >> 8), byte(len(b))}, b...) }

// TestSilentMakeRoom: connections that ask for nothing do not keep others out, the oldest goes
// first, and those that have asked stay.
func TestSilentMakeRoom(t *testing.T) {
	for name, a := range asking {
		t.Run(name, func(t *testing.T) {
			e := newEndless()
			s := a.make(Config{Dialer: e, MaxConns: 3})
			at := start(t, s)
			ask := func() net.Conn {
				c := dialTCP(t, at)
				if a.greet != nil {
					say(t, c, a.greet...)
					hear(t, c, 5, 0)
				}
				say(t, c, a.ask...)
				<-e.begun
				return c
			}
			first := ask()
			silent := []net.Conn{dialTCP(t, at), dialTCP(t, at)}
			s.accepts(t, 3)
			ask() // instead of the first silent one
			if b, err := io.ReadAll(silent[0]); err != nil && !strings.Contains(err.Error(), "reset") || len(b) > 0 {
				t.Errorf("the first silent one hears %q, %v", b, err)
			}
			ask() // instead of the second
			if s.count.evicted.Value() != 2 || s.count.refused.Value() != 0 {
				t.Errorf("%d evicted, %d refused", s.count.evicted.Value(), s.count.refused.Value())
			}
			if _, err := io.ReadAll(dialTCP(t, at)); err != nil && !strings.Contains(err.Error(), "reset") {
				t.Error(err)
			}
			if s.count.refused.Value() != 1 || len(e.ended) != 0 {
				t.Error("one that has asked made room")
			}
			reset(first.(halfCloser))
			<-e.ended
			s.open(t, 2)
			ask()
		})
	}
}

// accepts waits until so many connections have been accepted.
func (s *Server) accepts(t *testing.T, n uint64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); s.count.accepted.Value() < n; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("not accepted")
		}
	}
}

// TestLookupsMakeRoom: questions that are never answered do not close the DNS port: the oldest
// ends, and leaves its place.
func TestLookupsMakeRoom(t *testing.T) {
	e := newEndless()
	s := NewDNS(Config{Dialer: e, MaxConns: 2})
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.ServePacket(pc) }()
	defer func() { s.Close(); <-served }()
	c, err := net.Dial("udp", pc.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	for _, name := range []string{"a.", "b."} {
		say(t, c, ask(t, name, dnsmessage.TypeA)...)
		if req := <-e.begun; req.Host+"." != name {
			t.Fatalf("%s is looked up", req.Host)
		}
	}
	say(t, c, ask(t, "c.", dnsmessage.TypeA)...)
	<-e.ended // a
	if _, err := c.Read(make([]byte, 512)); err != nil {
		t.Error("the oldest gets no answer:", err)
	}
	s.open(t, 1)
	say(t, c, ask(t, "c.", dnsmessage.TypeA)...) // the program asks again
	if req := <-e.begun; req.Host != "c" {
		t.Errorf("%s is looked up", req.Host)
	}
}

// open waits until so many are in hand.
func (s *Server) open(t *testing.T, n int64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); int64(s.count.open.Value()) != n; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("a lookup stays")
		}
	}
}
