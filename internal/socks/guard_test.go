package socks

import (
	"net"
	"sync"
	"testing"

	"github.com/chivenet/chive/internal/localhttp/guardtest"
)

// TestHTTPGuard: no web page learns that an HTTP CONNECT port listens here.
func TestHTTPGuard(t *testing.T) {
	guardtest.Walk(t, guardtest.Port{
		Line: "OPTIONS * HTTP/1.1", OK: "HTTP/1.0 200 ",
		Serve: func(l net.Listener) func() {
			s := NewHTTP(Config{Dialer: new(network)})
			var all sync.WaitGroup
			all.Go(func() {
				if err := s.Serve(l); err != nil {
					t.Error(err)
				}
			})
			return func() { s.Close(); all.Wait() }
		},
	})
}
