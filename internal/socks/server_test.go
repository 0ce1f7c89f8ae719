package socks

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/isolation"
)

// pipes is a listener of in-memory connections, for tests on virtual time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	return nil
}
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }
func (p *pipes) connect() net.Conn {
	mine, theirs := net.Pipe()
	p.conns <- theirs
	return mine
}

// TestSlowHandshake: whoever does not finish a request in time is cut off, in
// every protocol and at every byte of it.
func TestSlowHandshake(t *testing.T) {
	ports := map[string]struct {
		make    func(Config) *Server
		request []byte
	}{
		"socks5": {NewSOCKS, append([]byte{5, 1, 0}, request5(1, "host", 80)...)},
		"socks4": {NewSOCKS, append([]byte{4, 1, 0, 80, 0, 0, 0, 1, 'u', 0}, "host\x00"...)},
		"http":   {NewHTTP, []byte("CONNECT host:80 HTTP/1.1\r\nHost: host:80\r\n\r\n")},
		"dns":    {NewDNS, []byte{0, 20, 1, 2, 3}},
	}
	for name, d := range ports {
		for cut := 0; cut < len(d.request); cut += 3 {
			synctest.Test(t, func(t *testing.T) {
				s := d.make(Config{Dialer: &network{}, HandshakeTimeout: 10 * time.Second})
				l := newPipes()
				go s.Serve(l)
				c := l.connect()
				began := time.Now()
				go c.Write(d.request[:cut])
				io.Copy(io.Discard, c)
				if took := time.Since(began); took != 10*time.Second {
					t.Errorf("%s, %d bytes: cut off after %v", name, cut, took)
				}
				c.Close()
				s.Close()
			})
		}
	}
}

func TestDialTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSOCKS(Config{Dialer: &network{gate: make(chan struct{})}, DialTimeout: time.Minute, HandshakeTimeout: time.Second})
		l := newPipes()
		go s.Serve(l)
		c := l.connect()
		began := time.Now()
		say(t, c, 5, 1, 0)
		hear(t, c, 5, 0)
		say(t, c, request5(1, "host", 80)...)
		hear(t, c, 5, 6, 0, 1, 0, 0, 0, 0, 0, 0)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("gave up after %v", took)
		}
		s.Close()
	})
}

// TestClientLeavesDuringDial: a reset stops the dial; what arrives meanwhile
// is kept.
func TestClientLeavesDuringDial(t *testing.T) {
	n := &network{gate: make(chan struct{}), dialling: make(chan struct{}, 1)}
	s := NewSOCKS(Config{Dialer: n})
	c := dialTCP(t, start(t, s))
	say(t, c, 5, 1, 0)
	hear(t, c, 5, 0)
	say(t, c, request5(1, "host", 80)...)
	<-n.dialling
	c.SetLinger(0)
	c.Close()
	s.handlersDone(t)
}

// handlersDone waits until nothing is in hand.
func (s *Server) handlersDone(t *testing.T) {
	t.Helper()
	done := make(chan struct{})
	go func() { s.handlers.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("a handler hangs")
	}
}

func TestDataDuringDialIsKept(t *testing.T) {
	n := &network{gate: make(chan struct{}), dialling: make(chan struct{}, 1), hosts: map[string]string{"host": peer(t, echo)}}
	c := dialTCP(t, start(t, NewSOCKS(Config{Dialer: n})))
	say(t, c, 5, 1, 0)
	hear(t, c, 5, 0)
	say(t, c, append(request5(1, "host", 80), "one "...)...)
	<-n.dialling
	early := n.requests()[0].Early
	say(t, c, []byte("two ")...)
	c.CloseWrite()
	close(n.gate)
	got, err := io.ReadAll(c)
	if want := string(ok5) + "one two "; string(got) != want || err != nil {
		t.Fatalf("got %q (%v), want %q; early %q", got, err, want, early)
	}
}

// lines sends each write to a channel.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// TestConnectionLimit: connections above the limit are closed, counted, and
// logged once a minute.
func TestConnectionLimit(t *testing.T) {
	told := make(chan string, 9)
	n := &network{hosts: map[string]string{"h": peer(t, echo)}}
	s := NewSOCKS(Config{Dialer: n, MaxConns: 2, Log: slog.New(slog.NewTextHandler(lines(told), nil))})
	port := start(t, s)
	a, b := dialTCP(t, port), dialTCP(t, port)
	for _, c := range []net.Conn{a, b} {
		say(t, c, 5, 1, 0)
		hear(t, c, 5, 0)
		say(t, c, request5(1, "h", 80)...)
		hear(t, c, ok5...)
	}
	for range 2 {
		c := dialTCP(t, port)
		c.Write([]byte{5, 1, 0})
		if got, _ := io.ReadAll(c); len(got) != 0 {
			t.Errorf("a third client hears %x", got)
		}
	}
	if s.count.refused.Value() != 2 {
		t.Error("not counted")
	}
	if line := <-told; !strings.Contains(line, "max-connections") || len(told) != 0 {
		t.Errorf("the log: %s and %d more lines", line, len(told))
	}
	a.Close()
	for { // a's place becomes free
		d := dialTCP(t, port)
		d.Write([]byte{5, 1, 0})
		if _, err := io.ReadFull(d, make([]byte, 2)); err == nil {
			break
		}
	}
}

func TestShutdownDrains(t *testing.T) {
	n := &network{hosts: map[string]string{"h": peer(t, echo)}}
	s := NewSOCKS(Config{Dialer: n})
	// No other test takes the address of this port when it is free again.
	port := filepath.Join(t.TempDir(), "port")
	l, err := Listen("unix:" + port)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer s.Close()
	c, err := DialUnix(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	say(t, c, 5, 1, 0)
	hear(t, c, 5, 0)
	say(t, c, request5(1, "h", 80)...)
	hear(t, c, ok5...)
	drained := make(chan error, 1)
	go func() { drained <- s.Shutdown(context.Background()) }()
	for { // no new clients
		d, err := DialUnix(t.Context(), port)
		if err != nil {
			break
		}
		d.Close()
	}
	say(t, c, []byte("still here")...)
	hear(t, c, []byte("still here")...)
	c.Close()
	if err := errors.Join(<-drained, <-served); err != nil {
		t.Fatal(err)
	}
}

// late is a listener that accepts one more connection after it was closed, as one does that was about to.
type late struct {
	*pipes
	last chan net.Conn
}

func (l late) Accept() (net.Conn, error) {
	c, err := l.pipes.Accept()
	if err != nil {
		select {
		case c := <-l.last:
			return c, nil
		default:
		}
	}
	return c, err
}

// TestAcceptedAtTheEnd: a connection that was accepted when the server began to shut down is
// served like one that was open already.
func TestAcceptedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSOCKS(Config{Dialer: &network{}})
		mine, theirs := net.Pipe()
		l := late{newPipes(), make(chan net.Conn, 1)}
		l.last <- theirs
		served, ended := make(chan error, 1), make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		synctest.Wait()
		go func() { ended <- s.Shutdown(t.Context()) }()
		say(t, mine, 5, 1, 0)
		hear(t, mine, 5, 0)
		mine.Close()
		if err := errors.Join(<-ended, <-served); err != nil {
			t.Error(err)
		}
	})
}

func TestShutdownCuts(t *testing.T) {
	n := &network{hosts: map[string]string{"h": peer(t, echo)}}
	s := NewSOCKS(Config{Dialer: n})
	c := dialTCP(t, start(t, s))
	say(t, c, 5, 1, 0)
	hear(t, c, 5, 0)
	say(t, c, request5(1, "h", 80)...)
	hear(t, c, ok5...)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); !fault.Is(err, fault.Timeout) || !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	if _, err := io.ReadAll(c); err != nil && !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
		t.Fatal(err)
	}
	l, _ := Listen("127.0.0.1:0")
	if err := s.Serve(l); err != nil {
		t.Error("serving after the end:", err)
	}
}

// TestShutdownCutsNothing: where no connection is open, none was cut, however short the time.
func TestShutdownCutsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 20 { // Shutdown may see either first: that nobody is left, or that the time is over
		s := NewSOCKS(Config{Dialer: &network{}})
		start(t, s)
		if err := s.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func TestListenAddresses(t *testing.T) {
	dir := t.TempDir()
	for _, ok := range []string{"9050", "127.0.0.1:0", "[::1]:9050", "unix:" + filepath.Join(dir, "s")} {
		if err := CheckAddr(ok); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "localhost:9050", "127.0.0.1", "99999", "unix:", ":9050"} {
		if err := CheckAddr(bad); !fault.Is(err, fault.Config) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for addr, want := range map[string]bool{"127.0.0.1:1": false, "[::1]:1": false, "0.0.0.0:1": true, "192.0.2.1:1": true, "[::]:1": true} {
		a, _ := net.ResolveTCPAddr("tcp", addr)
		if Exposed(a) != want {
			t.Errorf("Exposed(%s) is not %v", addr, want)
		}
	}
	if Exposed(&net.UnixAddr{Name: "/x"}) {
		t.Error("a unix socket is not exposed")
	}
}

// TestUnixSocket uses a path that fits into a socket's address and, where that
// works, one that does not.
func TestUnixSocket(t *testing.T) {
	t.Run("short", func(t *testing.T) {
		t.Chdir(t.TempDir())
		testUnixSocket(t, "port")
	})
	t.Run("long", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("only Linux reaches a socket by its directory's descriptor")
		}
		dir := filepath.Join(t.TempDir(), strings.Repeat("d", 200))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		testUnixSocket(t, filepath.Join(dir, "port"))
	})
}

func testUnixSocket(t *testing.T, path string) {
	l, err := Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if l.Addr().String() != path {
		t.Errorf("listens on %v", l.Addr())
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", st, err)
	}
	if _, err := Listen("unix:" + path); !fault.Is(err, fault.Config) {
		t.Fatal("took a socket in use:", err)
	}
	// What a crash leaves behind is replaced.
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	short, release, err := shortUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	if _, err := os.Stat(path); err != nil {
		t.Fatal("nothing was left behind:", err)
	}
	l, err = Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSOCKS(Config{Dialer: &network{hosts: map[string]string{"h": peer(t, echo)}}, Isolate: isolation.ByClientAddr})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c, err := DialUnix(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	say(t, c, append([]byte{5, 1, 0}, request5(1, "h", 80)...)...)
	hear(t, c, append([]byte{5, 0}, ok5...)...)
	s.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}

	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("unix:" + path); !fault.Is(err, fault.Config) {
		t.Errorf("a file that is no socket: %v", err)
	}
}

func TestExposureIsLogged(t *testing.T) {
	for addr, warn := range map[string]bool{"127.0.0.1:0": false, "0.0.0.0:0": true} {
		var log bytes.Buffer
		s := NewSOCKS(Config{Dialer: &network{}, Name: "port", Log: slog.New(slog.NewTextHandler(&log, nil))})
		l, err := net.Listen("tcp4", addr)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error)
		go func() { served <- s.Serve(l) }()
		c := dialTCP(t, strings.Replace(l.Addr().String(), "0.0.0.0", "127.0.0.1", 1))
		say(t, c, 5, 1, 0)
		hear(t, c, 5, 0) // it serves: the warning came before
		s.Close()
		<-served
		if strings.Contains(log.String(), "open to other machines") != warn || strings.Contains(log.String(), "0.0.0.0") {
			t.Errorf("%s: %q", addr, log.String())
		}
	}
}
