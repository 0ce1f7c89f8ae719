package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/chivenet/chive/internal/client"
)

// TestEarlyThroughOthers: what a program sends before the answer reaches the far end also if another
// process's client opens the stream. If it cannot be sent, there is no connection, and no error is lost.
func TestEarlyThroughOthers(t *testing.T) {
	here, far := net.Pipe()
	defer far.Close()
	d := onlyDials(func(_ context.Context, host string, port uint16) (net.Conn, error) {
		if host != "host.example" || port != 80 {
			t.Errorf("dialled %q %d", host, port)
		}
		return here, nil
	})
	got := make(chan []byte, 1)
	go func() {
		b := make([]byte, 5)
		_, _ = io.ReadFull(far, b) // the bytes tell
		got <- b
	}()
	req := client.Request{Host: "host.example", Port: 80, Early: []byte("early")}
	c, err := d.DialRequest(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if b := <-got; !bytes.Equal(b, req.Early) {
		t.Errorf("%q", b)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	// Nobody reads, and the program goes.
	here, far = net.Pipe()
	defer far.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if c, err := d.DialRequest(ctx, req); c != nil || !errors.Is(err, gone) {
		t.Errorf("%v, %v", c, err)
	}
	if _, err := here.Write(nil); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the connection is open: %v", err)
	}
}
