package nonblock_test

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/chivenet/chive/internal/nonblock"
)

func pair(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	if !nonblock.Available {
		t.Skip("this system has no socket calls that never wait")
	}
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

// TestWriteUntilFull: a writer takes less than all when the socket is full, and
// says nothing else; what it took arrives.
func TestWriteUntilFull(t *testing.T) {
	a, b := pair(t)
	raw, err := a.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	w := nonblock.NewWriter(raw)
	p := bytes.Repeat([]byte("chive"), 200<<10)
	sent := 0
	for full := false; !full; {
		n, err := w.TryWrite(p)
		if err != nil {
			t.Fatal(err)
		}
		sent += n
		full = n < len(p)
	}
	// The kernel goes on moving bytes to the other end, which makes room again;
	// that ends when the other end's buffer is full too.
	for n := 1; n > 0; sent += n {
		if n, err = w.TryWrite(p[:1]); err != nil {
			t.Fatal(n, err)
		}
	}
	a.CloseWrite()
	if n, err := io.Copy(io.Discard, b); n != int64(sent) || err != nil {
		t.Fatal(n, sent, err)
	}
	a.Close()
	if _, err := w.TryWrite(p); err == nil {
		t.Fatal("the socket is closed")
	}
}

// TestRead: nothing yet, something, and the end.
func TestRead(t *testing.T) {
	a, b := pair(t)
	raw, err := b.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 10)
	read := func(wait bool) (n int, err error) {
		cerr := raw.Read(func(fd uintptr) bool {
			n, err = nonblock.Read(fd, p)
			return !wait || err != nonblock.ErrWait
		})
		if cerr != nil {
			t.Fatal(cerr)
		}
		return n, err
	}
	if n, err := read(false); n != 0 || err != nonblock.ErrWait {
		t.Fatal(n, err)
	}
	if _, err := a.Write([]byte("one")); err != nil {
		t.Fatal(err)
	}
	if n, err := read(true); err != nil || string(p[:n]) != "one" {
		t.Fatal(n, err)
	}
	a.CloseWrite()
	if n, err := read(true); n != 0 || err != nil {
		t.Fatal(n, err)
	}
}

// TestNoAllocation: neither direction allocates.
func TestNoAllocation(t *testing.T) {
	a, b := pair(t)
	out, err := a.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	in, err := b.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	w := nonblock.NewWriter(out)
	p := make([]byte, 100)
	try := func(fd uintptr) bool {
		_, err := nonblock.Read(fd, p)
		return err != nonblock.ErrWait
	}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := w.TryWrite(p); err != nil {
			t.Fatal(err)
		}
		if err := in.Read(try); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSocket: what is written to one socket, more than fits, is read from the
// other, and then the end; no call allocates. What is no socket is left alone.
func TestSocket(t *testing.T) {
	a, b := pair(t)
	out, in := nonblock.NewSocket(a), nonblock.NewSocket(b)
	if out == io.ReadWriter(a) {
		t.Fatal("a TCP connection is not tried")
	}
	want := bytes.Repeat([]byte("chive"), 500<<10)
	done := make(chan error, 1)
	go func() {
		n, err := out.Write(want)
		if err == nil && n != len(want) {
			err = io.ErrShortWrite
		}
		a.CloseWrite()
		done <- err
	}()
	got, err := io.ReadAll(in)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatal(len(got), err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n, err := in.Read(nil); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	back := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := in.Write(back); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, back); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	a.Close()
	if _, err := out.Write(want); err == nil {
		t.Error("the socket is closed")
	}
	var plain bytes.Buffer
	if nonblock.NewSocket(&plain) != io.ReadWriter(&plain) {
		t.Error("a buffer is no socket")
	}
}
