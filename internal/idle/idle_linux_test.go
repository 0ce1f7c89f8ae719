package idle

import (
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/chivenet/chive/internal/nonblock"
)

// pair returns the two ends of a connection.
func pair(t testing.TB) (a, b *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	x, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	y, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close(); y.Close() })
	return x.(*net.TCPConn), y.(*net.TCPConn)
}

// wakes gets a token for each wake.
type wakes chan struct{}

func (w wakes) Wake() { w <- struct{}{} }

// resting returns a connection that may rest.
func resting(t testing.TB, conn net.Conn) (*Conn, wakes) {
	t.Helper()
	c, w := new(Conn), make(wakes, 10)
	c.Init(conn, w)
	t.Cleanup(c.Close)
	return c, w
}

func (c *Conn) rest(t testing.TB) {
	t.Helper()
	if err := c.Rest(); err != nil {
		t.Error(err)
	}
}

// read reads what is there.
func (c *Conn) read(p []byte) (n int, err error) {
	if rerr := c.Read(func(fd uintptr) bool {
		n, err = nonblock.Read(fd, p)
		return true
	}); rerr != nil {
		return 0, rerr
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// isAlone reports whether net does not know the socket.
func (c *Conn) isAlone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.alone != none
}

// leaveNow has a connection that rests leave net at once.
func (c *Conn) leaveNow(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	turn := c.turn
	c.mu.Unlock()
	c.leave(turn)
	if !c.isAlone() {
		t.Error("net still knows the socket")
	}
}

// each runs a test with a socket that net knows, and with one that it does not know.
func each(t *testing.T, test func(t *testing.T, rest func(*Conn))) {
	t.Run("known", func(t *testing.T) { test(t, func(c *Conn) { c.rest(t) }) })
	t.Run("alone", func(t *testing.T) { test(t, func(c *Conn) { c.rest(t); c.leaveNow(t) }) })
}

// TestRest: bytes, those that were there before, the end and a reset wake a connection,
// once for each rest.
func TestRest(t *testing.T) {
	each(t, func(t *testing.T, rest func(*Conn)) {
		a, b := pair(t)
		s, woken := resting(t, b)
		for range 3 { // the first byte comes after the rest has begun, the others stay unread
			if !s.isAlone() {
				rest(s)
			} else {
				s.rest(t)
			}
			if _, err := a.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			<-woken
		}
		if n, err := s.read(make([]byte, 10)); n != 3 || err != nil {
			t.Fatal(n, err)
		}
		select {
		case <-woken:
			t.Error("it wakes without a rest")
		default:
		}
		s.rest(t)
		a.CloseWrite()
		<-woken
		if _, err := s.read(make([]byte, 10)); err != io.EOF {
			t.Error(err)
		}
		c, d := pair(t)
		r, reset := resting(t, d)
		rest(r)
		c.SetLinger(0)
		c.Close()
		<-reset
	})
}

// TestLeavesByItself: a socket that rests leaves net after some time, and one that is used
// meanwhile does not.
func TestLeavesByItself(t *testing.T) {
	_, b := pair(t)
	s, _ := resting(t, b)
	s.rest(t)
	_, d := pair(t)
	used, _ := resting(t, d)
	used.rest(t)
	if _, _, err := used.Hold(false); err != nil {
		t.Fatal(err)
	}
	for !s.isAlone() {
		runtime.Gosched()
	}
	for all.swept() > 0 {
		runtime.Gosched()
	}
	if used.isAlone() {
		t.Error("a connection left net while it was in use")
	}
	used.Release()
	for !used.isAlone() {
		runtime.Gosched()
	}
}

// swept returns how many connections wait to leave net.
func (p *poller) swept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue)
}

// TestReturns: a socket goes from net and back many times, with its settings, and loses
// nothing.
func TestReturns(t *testing.T) {
	a, b := pair(t)
	b.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 300 * time.Second, Interval: 20 * time.Second, Count: 4})
	s, woken := resting(t, b)
	for range 50 {
		s.rest(t)
		s.leaveNow(t)
		if n, err := s.TryWrite([]byte("down")); n != 4 || err != nil {
			t.Fatal(n, err)
		}
		if _, err := io.ReadFull(a, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Write([]byte("up")); err != nil {
			t.Fatal(err)
		}
		<-woken
		conn, raw, err := s.Hold(true)
		if err != nil || raw == nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 9)); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		s.Release()
	}
	if !s.isAlone() {
		s.rest(t)
		s.leaveNow(t)
	}
	if k := keepAlive(int(s.alone)); !k.Enable || k.Idle != 300*time.Second || k.Interval != 20*time.Second || k.Count != 4 {
		t.Errorf("%+v", k)
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.conns) != 1 {
		t.Errorf("%d connections are known", len(all.conns))
	}
}

// TestEnds: a half-close, a reset and a close reach the other end, whoever knows the
// socket, and then nothing works.
func TestEnds(t *testing.T) {
	each(t, func(t *testing.T, rest func(*Conn)) {
		a, b := pair(t)
		s, _ := resting(t, b)
		rest(s)
		if err := s.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Read(make([]byte, 1)); err != io.EOF {
			t.Error(err)
		}
		if _, err := a.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		c, d := pair(t)
		r, _ := resting(t, d)
		rest(r)
		r.Reset()
		if _, err := c.Read(make([]byte, 1)); err == nil || err == io.EOF {
			t.Error("no reset:", err)
		}
		e, f := pair(t)
		l, woken := resting(t, f)
		rest(l)
		l.Close()
		l.Close()
		if _, err := e.Read(make([]byte, 1)); err != io.EOF {
			t.Error(err)
		}
		_, werr := l.TryWrite([]byte("x"))
		_, _, herr := l.Hold(false)
		if l.Rest() == nil || werr == nil || herr == nil || l.CloseWrite() == nil || l.Read(func(uintptr) bool { return true }) == nil {
			t.Error("a closed connection is used")
		}
		select {
		case <-woken:
			t.Error("a closed connection wakes")
		default:
		}
	})
}

// TestUnix: what works for TCP works for sockets of the file system.
func TestUnix(t *testing.T) {
	ln, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	s, woken := resting(t, b)
	s.rest(t)
	s.leaveNow(t)
	if _, err := a.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	<-woken
	conn, _, err := s.Hold(false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	if n, err := conn.Read(make([]byte, 2)); n != 1 || err != nil {
		t.Error(n, err)
	}
	s.Reset()
	if _, err := a.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
}

// TestCloseWhileHeld: closing ends a read that waits.
func TestCloseWhileHeld(t *testing.T) {
	_, b := pair(t)
	s, _ := resting(t, b)
	conn, _, err := s.Hold(false)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		s.Release()
		done <- err
	}()
	s.Close()
	if err := <-done; err == nil {
		t.Error("it was read")
	}
}

// TestDeadlineWhileAlone: a bound on writes holds for a socket that net did not know.
func TestDeadlineWhileAlone(t *testing.T) {
	_, b := pair(t)
	s, _ := resting(t, b)
	s.rest(t)
	s.leaveNow(t)
	s.SetWriteDeadline(time.Now().Add(-time.Second))
	conn, _, err := s.Hold(false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("x")); err == nil {
		t.Error("it was written")
	}
	s.Release()
	s.rest(t)
	s.mu.Lock()
	turn := s.turn
	s.mu.Unlock()
	s.leave(turn)
	if s.isAlone() {
		t.Error("the bound is lost")
	}
}

// TestNoSocket: a connection that is none of the kernel's is held, and cannot rest.
func TestNoSocket(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	c := new(Conn)
	c.Init(b, make(wakes))
	defer c.Close()
	if c.Tries() || c.MayRest() || c.Rest() == nil || c.CloseWrite() == nil || c.Read(func(uintptr) bool { return true }) == nil {
		t.Error("a pipe is taken for a socket")
	}
	if conn, raw, err := c.Hold(false); conn != b || raw != nil || err != nil {
		t.Error(conn, raw, err)
	}
	c.Release()
	c.Reset()
	if _, err := a.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
}

// TestMany: the poller serves many connections at once, which come and go from net while
// both ends write, and it ends when there are none.
func TestMany(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		a, b := pair(t)
		s, woken := resting(t, b)
		stop := make(chan struct{})
		var others sync.WaitGroup
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				s.mu.Lock()
				turn := s.turn
				s.mu.Unlock()
				s.leave(turn)
				if _, _, err := s.Hold(false); err != nil {
					t.Error(err)
					return
				}
				s.Release()
			}
		})
		others.Go(func() {
			if n, err := io.Copy(io.Discard, a); n != 200 || err != nil {
				t.Error(n, err)
			}
		})
		wg.Go(func() {
			for range 200 {
				s.rest(t)
				if _, err := a.Write([]byte("x")); err != nil {
					t.Error(err)
				}
				for got := false; !got; {
					<-woken
					switch n, err := s.read(make([]byte, 1)); {
					case n == 1:
						got = true
					case err == nonblock.ErrWait: // woken without a reason
						s.rest(t)
					default:
						t.Error(n, err)
						return
					}
				}
				if n, err := s.TryWrite([]byte("y")); n != 1 || err != nil {
					t.Error(n, err)
				}
			}
			close(stop)
			s.CloseWrite()
			others.Wait()
			s.Close()
		})
	}
	wg.Wait()
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.epoll != nil || len(all.conns) > 0 {
		t.Error("the poller stays")
	}
}

// TestPollerFails: if the kernel's set is lost, all connections are woken, and rest in
// another one.
func TestPollerFails(t *testing.T) {
	a, b := pair(t)
	s, woken := resting(t, b)
	s.rest(t)
	s.leaveNow(t)
	all.mu.Lock()
	e := all.epoll
	all.mu.Unlock()
	all.failed(e)
	<-woken
	s.rest(t)
	if _, err := a.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	<-woken
}
