package stream

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
)

// broken is a connection whose writes fail.
type broken struct {
	net.Conn
	err error
}

func (c broken) Write([]byte) (int, error) {
	return 0, &net.OpError{Op: "write", Err: os.NewSyscallError("write", c.err)}
}
func (broken) Close() error { return nil }

// TestEndAfterAFailedWrite: an end that is read after a write has failed is the failure, not
// the peer's end: what the peer sent may not be whole.
func TestEndAfterAFailedWrite(t *testing.T) {
	for _, c := range []struct{ write, want error }{
		{syscall.ECONNRESET, syscall.ECONNRESET},
		{syscall.ETIMEDOUT, syscall.ECONNRESET},
		{syscall.EPIPE, nil},          // somebody was told of the failure, or the peer has ended
		{os.ErrDeadlineExceeded, nil}, // the connection is as good as before
	} {
		j := new(pump)
		j.conn.Init(broken{err: c.write}, j)
		if err := j.endOfData(io.EOF); err != nil {
			t.Error(c.write, err)
		}
		if _, err := j.conn.Write([]byte("x")); !errors.Is(err, c.write) {
			t.Fatal(err)
		}
		if err := j.endOfData(io.EOF); err != c.want {
			t.Errorf("%v: %v, %v wanted", c.write, err, c.want)
		}
		if err := j.endOfData(net.ErrClosed); err != net.ErrClosed {
			t.Error(err)
		}
	}
}
