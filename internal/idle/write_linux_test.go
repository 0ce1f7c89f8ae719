package idle

import (
	"errors"
	"io"
	"syscall"
	"testing"
)

// TestWriteTakesTheFailure: the kernel tells of a reset once. When a write was told, the next
// read finds an end, and Failed says what it is worth.
func TestWriteTakesTheFailure(t *testing.T) {
	writes := map[string]func(*Conn) error{
		"tries": func(c *Conn) error { _, err := c.TryWrite([]byte("x")); return err },
		"waits": func(c *Conn) error { _, err := c.Write([]byte("x")); return err },
	}
	each(t, func(t *testing.T, rest func(*Conn)) {
		for name, write := range writes {
			a, b := pair(t)
			s, woken := resting(t, b)
			rest(s)
			if s.Failed() {
				t.Error(name, "before the reset")
			}
			a.SetLinger(0)
			a.Close()
			<-woken
			if err := write(s); !errors.Is(err, syscall.ECONNRESET) {
				t.Fatal(name, err)
			}
			if _, err := s.read(make([]byte, 1)); err != io.EOF || !s.Failed() {
				t.Error(name, err, s.Failed())
			}
		}
	})
}

// TestEndBeforeTheFailure: the peer has ended before it reset, so what it sent is whole.
func TestEndBeforeTheFailure(t *testing.T) {
	each(t, func(t *testing.T, rest func(*Conn)) {
		a, b := pair(t)
		s, woken := resting(t, b)
		rest(s)
		a.CloseWrite()
		<-woken
		a.SetLinger(0)
		a.Close()
		var err error
		for err == nil { // the kernel learns of it in its own time
			_, err = s.TryWrite([]byte("x"))
		}
		if !errors.Is(err, syscall.EPIPE) {
			t.Error(err)
		}
		if _, err := s.read(make([]byte, 1)); err != io.EOF || s.Failed() {
			t.Error(err, s.Failed())
		}
	})
}
