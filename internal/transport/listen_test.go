package transport

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics/panicstest"
)

// serverFunc is a transport.
type serverFunc func(ctx context.Context, cfg ServerConfig) (net.Listener, map[string]string, error)

func (f serverFunc) Listen(ctx context.Context, cfg ServerConfig) (net.Listener, map[string]string, error) {
	return f(ctx, cfg)
}

// port is a listener that gives what it is told to.
type port struct {
	next   chan func() (net.Conn, error)
	closed atomic.Int64
	wait   chan struct{} // Close waits for it; nil: it does not
	addr   net.Addr
}

func newPort() *port { return &port{next: make(chan func() (net.Conn, error), 10)} }

func (p *port) Accept() (net.Conn, error) {
	f, ok := <-p.next
	if !ok {
		return nil, net.ErrClosed
	}
	return f()
}

func (p *port) Addr() net.Addr { return p.addr }

func (p *port) Close() error {
	p.closed.Add(1)
	if p.wait != nil {
		<-p.wait
	}
	return nil
}

// TestListen: connections come with their clients' addresses, and the listener closes at once though the
// transport's does not.
func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPort()
		p.wait = make(chan struct{})
		p.addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7}
		opts := map[string]string{"a": "b"}
		ln, args, err := Listen(t.Context(), serverFunc(func(_ context.Context, cfg ServerConfig) (net.Listener, map[string]string, error) {
			cfg.Options["a"] = "c"
			return p, map[string]string{"key": "x=;"}, nil
		}), ServerConfig{Options: opts, Log: nowhere})
		if err != nil || args["key"] != "x=;" || opts["a"] != "b" || ln.Addr().String() != "127.0.0.1:7" {
			t.Fatal(args, opts, err)
		}
		a, b := net.Pipe()
		defer b.Close()
		p.next <- func() (net.Conn, error) {
			return &liar{Conn: a, addr: func() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9), Port: 5} }}, nil
		}
		c, err := ln.Accept()
		if err != nil || c.RemoteAddr().String() != "192.0.2.9:5" {
			t.Fatal(c, err)
		}
		c.Close()
		refused := errors.New("192.0.2.7:1 is gone")
		p.next <- func() (net.Conn, error) { return nil, refused }
		if _, err := ln.Accept(); !errors.Is(err, refused) || strings.Contains(err.Error(), "192") {
			t.Error(err)
		}
		p.next <- func() (net.Conn, error) { return nil, nil }
		if c, err := ln.Accept(); c != nil || err == nil {
			t.Error("no connection and no error:", c, err)
		}
		waiting := make(chan error)
		go func() {
			_, err := ln.Accept()
			waiting <- err
		}()
		synctest.Wait()
		ln.Close()
		if err := <-waiting; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		late, far := net.Pipe()
		defer far.Close()
		l := &slow{Conn: late}
		p.next <- func() (net.Conn, error) { return l, nil }
		synctest.Wait()
		if l.closed != 1 || p.closed.Load() != 1 {
			t.Error("a connection that comes after the end stays open")
		}
		if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		close(p.wait)
		close(p.next)
	})
}

// TestAcceptPanics: a listener whose transport panics fails, and closes.
func TestAcceptPanics(t *testing.T) {
	panicstest.Expect(t, 1)
	synctest.Test(t, testAcceptPanics)
}

func testAcceptPanics(t *testing.T) {
	p := newPort()
	ln, _, err := Listen(t.Context(), serverFunc(func(context.Context, ServerConfig) (net.Listener, map[string]string, error) { return p, nil, nil }), ServerConfig{Log: nowhere})
	if err != nil {
		t.Fatal(err)
	}
	p.next <- func() (net.Conn, error) { panic("at the door") }
	if _, err := ln.Accept(); !fault.Is(err, fault.Local) {
		t.Error(err)
	}
	if ln.Addr() != Unknown {
		t.Error(ln.Addr())
	}
	ln.Close()
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestListenFails: a port that cannot be used is closed.
func TestListenFails(t *testing.T) {
	for name, c := range map[string]struct {
		give func(*port) (net.Listener, map[string]string, error)
		open bool // there was a port
	}{
		"an error":  {func(*port) (net.Listener, map[string]string, error) { return nil, nil, errors.New("no") }, false},
		"both":      {func(p *port) (net.Listener, map[string]string, error) { return p, nil, errors.New("no") }, true},
		"neither":   {func(*port) (net.Listener, map[string]string, error) { return nil, nil, nil }, false},
		"two words": {func(p *port) (net.Listener, map[string]string, error) { return p, map[string]string{"a": "b c"}, nil }, true},
		"a second line": {func(p *port) (net.Listener, map[string]string, error) {
			return p, map[string]string{"a\nready": "b"}, nil
		}, true},
		"too long": {func(p *port) (net.Listener, map[string]string, error) {
			return p, map[string]string{"a": strings.Repeat("x", 600)}, nil
		}, true},
		"a panic": {func(*port) (net.Listener, map[string]string, error) { panic("no") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "a panic" {
				panicstest.Expect(t, 1)
			}
			synctest.Test(t, func(t *testing.T) {
				p := newPort()
				ln, args, err := Listen(t.Context(), serverFunc(func(context.Context, ServerConfig) (net.Listener, map[string]string, error) { return c.give(p) }), ServerConfig{Log: nowhere})
				if ln != nil || args != nil || err == nil {
					t.Fatal(ln, args, err)
				}
				synctest.Wait()
				if p.closed.Load() == 1 != c.open {
					t.Errorf("closed %d times", p.closed.Load())
				}
			})
		})
	}
}

// TestListenForEver: a transport that does not return holds nobody, and its port is closed when it does.
func TestListenForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, release := newPort(), make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err := Listen(ctx, serverFunc(func(context.Context, ServerConfig) (net.Listener, map[string]string, error) {
			<-release
			return p, nil, nil
		}), ServerConfig{Log: nowhere})
		if !fault.Is(err, fault.Timeout) {
			t.Error(err)
		}
		close(release)
		synctest.Wait()
		if p.closed.Load() != 1 {
			t.Error("a late port stays open")
		}
	})
}
