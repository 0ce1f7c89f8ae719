package socks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chivenet/chive/socks"
)

// start serves s on loopback until the test ends, and returns its address.
func start(t *testing.T, s *socks.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr().String()
}

// talk sends bytes to the server, and returns the first bytes of its answer.
func talk(t *testing.T, addr string, say []byte, n int) []byte {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := c.Write(say); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, n)
	got, err := io.ReadFull(c, b)
	if err != nil {
		t.Errorf("%d bytes, %v", got, err)
	}
	return b[:got]
}

// request is a SOCKS 5 greeting and a request for a host name.
func request(cmd byte, host string) []byte {
	b := append([]byte{5, 1, 0, 5, cmd, 0, 3, byte(len(host))}, host...)
	return append(b, 0, 80)
}

// TestReplies: the error of a dialler becomes the code of the reply.
func TestReplies(t *testing.T) {
	var fails error
	s := &socks.Server{Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: fails}
	}}
	addr := start(t, s)
	for _, c := range []struct {
		err  error
		code byte
	}{
		{syscall.ECONNREFUSED, 5}, {syscall.EHOSTUNREACH, 4}, {&net.DNSError{IsNotFound: true}, 4}, {context.DeadlineExceeded, 6}, {syscall.ETIMEDOUT, 6},
		{fmt.Errorf("not there: %w", socks.ErrPolicy), 2}, {errors.New("another"), 1},
	} {
		fails = c.err
		if got := talk(t, addr, request(1, "host.test"), 4); got[3] != c.code {
			t.Errorf("%v: code %d, want %d", c.err, got[3], c.code)
		}
	}
}

// TestDestination: the dialler gets the host as the program gave it, and what the
// program sends before the reply reaches the far end.
func TestDestination(t *testing.T) {
	seen := make(chan string, 1)
	addr := start(t, &socks.Server{Dial: func(_ context.Context, network, address string) (net.Conn, error) {
		seen <- network + " " + address
		here, far := net.Pipe()
		go func() { defer far.Close(); io.CopyN(far, far, 5) }()
		return here, nil
	}})
	got := talk(t, addr, append(request(1, "host.test"), "early"...), 2+10+5)
	if s := <-seen; s != "tcp host.test:80" || !bytes.HasSuffix(got, []byte("early")) {
		t.Errorf("dialled %q, answer %q", s, got)
	}
	talk(t, addr, []byte{4, 1, 0, 80, 192, 0, 2, 7, 0}, 2)
	if s := <-seen; s != "tcp 192.0.2.7:80" {
		t.Errorf("dialled %q", s)
	}
}

// TestLookup: RESOLVE is refused without Lookup.
func TestLookup(t *testing.T) {
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("none") }
	if got := talk(t, start(t, &socks.Server{Dial: dial}), request(0xF0, "host.test"), 4); got[3] != 2 {
		t.Errorf("without Lookup: %x", got)
	}
	lookup := func(_ context.Context, host string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("192.0.2.7")}, nil
	}
	if got := talk(t, start(t, &socks.Server{Dial: dial, Lookup: lookup}), request(0xF0, "host.test"), 12); !bytes.Equal(got[3:10], []byte{0, 0, 1, 192, 0, 2, 7}) {
		t.Errorf("with Lookup: %x", got)
	}
}

// TestRefuseAddresses refuses what has no host name, and the log does not say what it was.
func TestRefuseAddresses(t *testing.T) {
	var log bytes.Buffer
	s := &socks.Server{RefuseAddresses: true, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("none") }}
	if got := talk(t, start(t, s), []byte{4, 1, 0, 80, 192, 0, 2, 7, 0}, 2); got[1] != 91 {
		t.Errorf("%x", got)
	}
	s.Close()
	if text := log.String(); !strings.Contains(text, "WARN") || strings.Contains(text, "192.0.2") {
		t.Errorf("the log: %s", text)
	}
}

// TestServerWithoutDial does not serve, and closes the listener.
func TestServerWithoutDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := new(socks.Server).Serve(l); !errors.Is(err, socks.ErrConfig) {
		t.Error(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener: %v", err)
	}
}

// TestShutdown waits for open connections until its context ends, and then cuts them.
func TestShutdown(t *testing.T) {
	s := &socks.Server{Dial: func(context.Context, string, string) (net.Conn, error) {
		here, far := net.Pipe()
		t.Cleanup(func() { far.Close() })
		return here, nil
	}}
	addr := start(t, s)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(request(1, "host.test")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 12)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, socks.ErrTimeout) {
		t.Errorf("Shutdown: %v", err)
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("the server still listens")
	}
}
