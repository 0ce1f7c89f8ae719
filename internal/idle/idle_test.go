package idle

import (
	"net"
	"runtime"
	"sync"
	"testing"
)

// pair returns the two ends of a connection, and what to wait for the second with.
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

func watch(t testing.TB, c *net.TCPConn) (*Socket, chan struct{}) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("goroutines wait for sockets here")
	}
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	woken := make(chan struct{}, 10)
	s, err := Watch(raw, wakes(woken))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Forget)
	return s, woken
}

// TestWait: bytes, those that were there before, the end and a reset wake a socket, once
// for each wait.
func TestWait(t *testing.T) {
	a, b := pair(t)
	s, woken := watch(t, b)
	wait := func() {
		t.Helper()
		if err := s.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 { // the first byte comes after the wait has begun, the others stay unread
		wait()
		if _, err := a.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		<-woken
	}
	if _, err := b.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-woken:
		t.Error("it wakes without a wait")
	default:
	}
	wait()
	a.CloseWrite()
	<-woken
	c, d := pair(t)
	r, reset := watch(t, d)
	if err := r.Wait(); err != nil {
		t.Fatal(err)
	}
	c.SetLinger(0)
	c.Close()
	<-reset
}

// TestForget: a forgotten socket does not wake, cannot be waited for, and may be forgotten
// again; another one that gets its file descriptor has no part in that.
func TestForget(t *testing.T) {
	a, b := pair(t)
	s, woken := watch(t, b)
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	s.Forget()
	s.Forget()
	if s.Wait() == nil {
		t.Error("a forgotten socket is waited for")
	}
	if _, err := a.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		c, d := pair(t)
		s, next := watch(t, d)
		if err := s.Wait(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		<-next
		d.Close() // before Forget
		s.Forget()
	}
	select {
	case <-woken:
		t.Error("a forgotten socket wakes")
	default:
	}
}

// TestClosed: a closed socket cannot be waited for.
func TestClosed(t *testing.T) {
	_, b := pair(t)
	s, _ := watch(t, b)
	b.Close()
	if s.Wait() == nil {
		t.Error("a closed socket is waited for")
	}
}

// TestMany: the poller serves many sockets at once, and ends when there are none.
func TestMany(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		a, b := pair(t)
		s, woken := watch(t, b)
		wg.Go(func() {
			for range 200 {
				if err := s.Wait(); err != nil {
					t.Error(err)
					return
				}
				if _, err := a.Write([]byte("x")); err != nil {
					t.Error(err)
				}
				<-woken
				if _, err := b.Read(make([]byte, 1)); err != nil {
					t.Error(err)
				}
			}
			s.Forget()
		})
	}
	wg.Wait()
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.epoll != nil || len(all.sockets) > 0 {
		t.Error("the poller stays")
	}
}

// TestPollerFails: if the kernel's set is lost, all sockets are woken, and cannot be waited
// for: the caller waits by itself.
func TestPollerFails(t *testing.T) {
	_, b := pair(t)
	s, woken := watch(t, b)
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	all.mu.Lock()
	e := all.epoll
	all.mu.Unlock()
	all.failed(e)
	<-woken
	if s.Wait() == nil {
		t.Error("the poller is used after its end")
	}
	_, c := pair(t)
	again, _ := watch(t, c)
	if err := again.Wait(); err != nil {
		t.Error(err)
	}
}
