package listen

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics/panicstest"
)

// script is a listener that returns the prepared results, and then waits until it
// is closed.
type script struct {
	next   []any // an error, or a net.Conn
	once   sync.Once
	closed chan struct{}
}

func newScript(next ...any) *script { return &script{next: next, closed: make(chan struct{})} }

func (s *script) Accept() (net.Conn, error) {
	if len(s.next) == 0 {
		<-s.closed
		return nil, net.ErrClosed
	}
	x := s.next[0]
	s.next = s.next[1:]
	if err, ok := x.(error); ok {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
	}
	return x.(net.Conn), nil
}

func (s *script) Addr() net.Addr { return &net.TCPAddr{} }

func (s *script) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// conn is a connection that records whether it was closed.
type conn struct {
	net.Conn
	closed bool
}

func (c *conn) Close() error { c.closed = true; return nil }

// shortages returns the error n times.
func shortages(n int) (all []any) {
	for range n {
		all = append(all, syscall.EMFILE)
	}
	return all
}

// TestShortage: a shortage ends no listener, takes few attempts, and is logged
// once, also if single connections are accepted meanwhile; the next one is logged again.
func TestShortage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		first, second := &conn{}, &conn{}
		l := newScript(append(append(append(shortages(20), first), shortages(20)...), second)...)
		p := Patient(l, slog.New(slog.NewTextHandler(&log, nil)), "ORPort")
		began := time.Now()
		for _, want := range []*conn{first, second} {
			if c, err := p.Accept(); err != nil || c != want {
				t.Fatal(c, err)
			}
		}
		if took := time.Since(began); took < 20*time.Second || took > time.Minute {
			t.Errorf("40 attempts took %v", took)
		}
		if got := log.String(); strings.Count(got, "cannot accept") != 1 || !strings.Contains(got, "ORPort") {
			t.Errorf("the log of one shortage: %s", got)
		}
		time.Sleep(2 * quiet)
		l.next = append(shortages(3), &conn{})
		if _, err := p.Accept(); err != nil {
			t.Fatal(err)
		}
		if got := log.String(); strings.Count(got, "cannot accept") != 2 {
			t.Errorf("the log of two shortages: %s", got)
		}
	})
}

// TestCloseEndsTheWait: Close ends a waiting Accept at once.
func TestCloseEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Patient(newScript(shortages(100)...), nil, "x")
		done := make(chan error)
		go func() {
			_, err := p.Accept()
			done <- err
		}()
		time.Sleep(10*time.Second + time.Millisecond)
		began := time.Now()
		p.Close()
		p.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestPasses(t *testing.T) {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EPERM, syscall.EPROTO, os.ErrDeadlineExceeded} {
		if !Passes(&net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", e)}) {
			t.Error(e, "does not pass")
		}
	}
	for _, e := range []error{syscall.EBADF, syscall.EINVAL, syscall.ENOTSOCK, syscall.EOPNOTSUPP, net.ErrClosed, errors.New("of another kind")} {
		if Passes(&net.OpError{Op: "accept", Err: e}) {
			t.Error(e, "passes")
		}
	}
}

// TestServe: a panic in take closes its connection only; the end of the context
// closes the listener and is no error; a Close by other code is an error, and so
// is a broken socket.
func TestServe(t *testing.T) {
	panicstest.Expect(t, 1)
	synctest.Test(t, func(t *testing.T) {
		bad, good := &conn{}, &conn{}
		l := newScript(bad, syscall.ENFILE, good)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		var taken []net.Conn
		serve := func(ctx context.Context, l net.Listener) {
			done <- Serve(ctx, l, nil, "port", func(c net.Conn) {
				if c == bad {
					panic("a mistake")
				}
				taken = append(taken, c)
			})
		}
		go serve(ctx, l)
		time.Sleep(time.Minute)
		synctest.Wait()
		if !bad.closed || good.closed || len(taken) != 1 {
			t.Errorf("closed: %v, %v; taken: %d", bad.closed, good.closed, len(taken))
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		<-l.closed

		l = newScript()
		go serve(t.Context(), l)
		synctest.Wait()
		l.Close()
		if err := <-done; !fault.Is(err, fault.Closed) {
			t.Error(err)
		}

		l = newScript(syscall.EBADF)
		go serve(t.Context(), l)
		if err := <-done; !fault.Is(err, fault.Local) || !errors.Is(err, syscall.EBADF) {
			t.Error(err)
		}
		<-l.closed
	})
}
