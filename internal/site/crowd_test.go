package site

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chivenet/chive/internal/localhttp/guardtest"
)

// serving serves a folder with a file of some megabytes, on connections in memory. Each connection is a
// client of its own, unless all are of one.
func serving(t *testing.T, one bool) (dial func() net.Conn, stop func()) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "big.bin"), make([]byte, 4<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "small.txt"), []byte("small"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "long"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join(dir, "long", fmt.Sprint(strings.Repeat("long-", 40), i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir, Options{List: true})
	l := guardtest.NewListener()
	n := uint64(0)
	done := make(chan error, 1)
	go func() {
		done <- s.Serve(l, func(net.Conn) uint64 {
			if !one {
				n++
			}
			return n
		})
	}()
	var conns []net.Conn
	return func() net.Conn {
			c := l.Dial()
			conns = append(conns, c)
			return c
		}, func() {
			s.Close()
			for _, c := range conns {
				c.Close()
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
}

const (
	askBig   = "GET /big.bin HTTP/1.1\r\nHost: x\r\n\r\n"
	askList  = "GET /long/ HTTP/1.1\r\nHost: x\r\n\r\n"
	askSmall = "GET /small.txt HTTP/1.1\r\nHost: x\r\n\r\n"
)

// small reports whether a connection gets an answer now.
func small(c net.Conn) bool {
	c.SetDeadline(time.Now().Add(time.Millisecond))
	defer c.SetDeadline(time.Time{})
	go io.WriteString(c, askSmall)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return false
	}
	b, err := io.ReadAll(r.Body)
	return err == nil && string(b) == "small"
}

// closed reports whether the server has closed a connection whose client reads nothing.
func closed(c net.Conn) bool {
	c.SetDeadline(time.Now().Add(time.Millisecond))
	defer c.SetDeadline(time.Time{})
	_, err := c.Write([]byte("x"))
	return err == io.ErrClosedPipe
}

// TestSlowReaders: clients that ask for much and do not read it keep nobody out, and lose their connections.
func TestSlowReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, stop := serving(t, false)
		defer stop()
		var slow []net.Conn
		for range MaxOpen {
			c := dial()
			go io.WriteString(c, askBig)
			slow = append(slow, c)
		}
		synctest.Wait()
		if small(dial()) {
			t.Error("a connection has lost its place at once")
		}
		time.Sleep(stalled)
		for i := range 20 {
			if !small(dial()) {
				t.Errorf("number %d was kept out by slow readers", i)
			}
		}
		time.Sleep(writeTime)
		synctest.Wait()
		for i, c := range slow {
			if !closed(c) {
				t.Fatalf("slow reader %d still has its connection", i)
			}
		}
	})
}

// TestReaderGoesOn: a client that reads slowly, but reads, gets all, also while others come in numbers.
func TestReaderGoesOn(t *testing.T) {
	for what, size := range map[string]int{askBig: 4 << 20, askList: 400_000} { // the list has more
		synctest.Test(t, func(t *testing.T) {
			dial, stop := serving(t, false)
			defer stop()
			reader := dial()
			go io.WriteString(reader, what)
			r, err := http.ReadResponse(bufio.NewReader(reader), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			for got.Len() < size {
				for range 80 {
					small(dial()) // they stay, and are idle
				}
				time.Sleep(stalled / 2)
				if _, err := io.CopyN(&got, r.Body, min(64<<10, int64(size-got.Len()))); err != nil {
					t.Fatalf("%.10s: after %d bytes: %v", what, got.Len(), err)
				}
			}
		})
	}
}

// TestListsOnce: however many clients a list is sent to, there is one copy of it, and for a while it is not made again;
// then there is another one if the directory has changed; and few are kept that nobody reads.
func TestListsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := tree(t)
		s := open(t, dir, Options{List: true})
		f := s.use()
		defer f.release()
		take := func(name string) *list {
			l, err := f.list(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		first := take("list")
		all := []*list{first}
		more := func(want *list, why string) {
			for range 100 {
				l := take("list")
				if all = append(all, l); l != want {
					t.Fatal(why)
				}
			}
		}
		more(first, "a second copy")
		time.Sleep(listAge)
		more(first, "a second copy of what has not changed")
		if err := os.WriteFile(filepath.Join(dir, "list", "new"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		time.Sleep(listAge - 1)
		more(first, "it was made again too early")
		time.Sleep(1 * time.Nanosecond)
		second := take("list")
		if all = append(all, second); second == first || !bytes.Contains(second.html, []byte("new")) {
			t.Error("the list after a change is not the directory's")
		}
		more(second, "a second copy of the second")
		for _, l := range all {
			f.lists.release(l, time.Now())
		}
		if len(f.lists.sent) != 1 {
			t.Errorf("%d lists are kept", len(f.lists.sent))
		}
		for i := range maxKept + 3 {
			name := fmt.Sprint("list/deep/", i)
			if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
			f.lists.release(take(name), time.Now())
		}
		if len(f.lists.sent) != maxKept {
			t.Errorf("%d lists are kept", len(f.lists.sent))
		}
		time.Sleep(listAge)
		f.lists.release(take("list"), time.Now())
		if len(f.lists.sent) != 1 {
			t.Errorf("%d lists are kept, and are too old", len(f.lists.sent))
		}
	})
}

// TestListersWait: few lists are made at a time, and who waits for a place and leaves has none.
func TestListersWait(t *testing.T) {
	s := open(t, tree(t), Options{List: true})
	f := s.use()
	defer f.release()
	for range listers {
		f.lists.making <- struct{}{}
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := f.list(ctx, "list"); err == nil {
		t.Error("a list beyond the bound")
	}
	<-f.lists.making
	one, err := f.list(t.Context(), "list")
	if err != nil {
		t.Fatal(err)
	}
	f.lists.release(one, time.Now())
}

// TestListIsBounded: long names make a list shorter, not larger.
func TestListIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 3000 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(strings.Repeat("é", 110), i)), nil, 0o644); err != nil {
			t.Skip(err)
		}
	}
	s := open(t, dir, Options{List: true})
	if got := body(get(s, "GET", "/")); len(got) > maxList+2000 || !strings.Contains(got, "There are more") {
		t.Errorf("%d bytes", len(got))
	}
}

// TestOneClient: one client does not take all places.
func TestOneClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, stop := serving(t, true)
		defer stop()
		open := 0
		for range MaxOpen {
			if small(dial()) {
				open++
			}
		}
		if open < MaxOpen/8 || open > MaxOpen/4 {
			t.Errorf("it has %d connections", open)
		}
	})
}

// TestHeaderTime: a request that does not come to its end loses its connection, and so does a connection without a
// request.
func TestHeaderTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, stop := serving(t, false)
		defer stop()
		for begin, wait := range map[string]time.Duration{"GET /small.txt HTTP/1.1\r\nHost: x\r\n": headerTime, "": headerTime} {
			c := dial()
			go io.WriteString(c, begin)
			time.Sleep(wait + time.Second)
			if !closed(c) {
				t.Errorf("%q: open", begin)
			}
		}
		c := dial()
		if !small(c) {
			t.Error("no answer")
		}
		time.Sleep(idleTime + time.Second)
		if !closed(c) {
			t.Error("idle, and open")
		}
	})
}
