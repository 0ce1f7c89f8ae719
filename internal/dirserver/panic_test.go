package dirserver

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
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
	for i := range 4 {
		for s.room.under() > 0 { // places are given back after the connection is closed
			runtime.Gosched()
		}
		res, err := get([]string{"/mistake", "/mistake", "/mistake", "/right"}[i])
		switch {
		case i < 3 && err == nil:
			t.Errorf("answered with %s", res.Status)
		case i == 3 && (err != nil || res.StatusCode != 200):
			t.Errorf("then %+v, %v", res, err)
		}
	}
	cancel()
	if err := <-done; err != nil { // which waits for every connection
		t.Error(err)
	}
	if m := s.room; m.ways != [2]int64{} || m.uploads != 0 || len(m.guests) != 0 || len(log.Panics()) != 1 {
		t.Errorf("requests %v, %d bytes, %d addresses, %d stacks", m.ways, m.uploads, len(m.guests), len(log.Panics()))
	}
}

// under returns how many requests are under way.
func (m *room) under() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ways[0] + m.ways[1]
}
