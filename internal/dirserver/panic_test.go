package dirserver

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/chivenet/chive/internal/panics/panicstest"
)

// TestPanicEndsARequest: the connection whose request it was is closed, its slot
// and its address's are free again, and the next request is answered.
func TestPanicEndsARequest(t *testing.T) {
	panicstest.Expect(t, 3)
	var log panicstest.Log
	s := New(Config{Docs: filled(t), Log: log.Logger(), MaxConns: 1, MaxPerAddr: 1, Extra: func(_ context.Context, _ Peer, r *Request) *Response {
		if r.Path == "/mistake" {
			panic("a mistake")
		}
		return Short(200, "OK")
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	get := func(path string) (*http.Response, error) {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "GET "+path+" HTTP/1.0\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			io.Copy(io.Discard, c) // until the server has closed it
		}
		return res, err
	}
	for range 3 {
		if res, err := get("/mistake"); err == nil {
			t.Errorf("answered with %s", res.Status)
		}
	}
	// The address's place is given back after the connection is closed.
	for {
		res, err := get("/right")
		if err != nil {
			continue
		}
		if res.StatusCode != 200 {
			t.Errorf("then %s", res.Status)
		}
		break
	}
	cancel()
	if err := <-done; err != nil { // which waits for every connection
		t.Error(err)
	}
	if r := s.room; r.doors != [2]int64{} || r.uploads != 0 || len(r.guests) != 0 || len(log.Panics()) != 1 {
		t.Errorf("%v requests, %d bytes, %d guests, %d stacks", r.doors, r.uploads, len(r.guests), len(log.Panics()))
	}
}
